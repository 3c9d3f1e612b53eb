// espalier-verifier with a model whose device is lost once SIGUSR1 arrives.
#include <signal.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/model/load/load_model.h"
#include "common/rpc/shutdown_signals.h"
#include "tests/testing/language_model_decorator.h"
#include "verifier/verifier_server.h"

namespace espalier {
namespace {

volatile sig_atomic_t is_lost = 0;

class LosableModel final : public LanguageModelDecorator {
 public:
  using LanguageModelDecorator::LanguageModelDecorator;

  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    if (is_lost != 0) return absl::UnavailableError("an illegal address");
    return LanguageModelDecorator::Forward(batch);
  }
};

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const ModelOptions& options) {
  ASSIGN_OR_RETURN(auto model, LoadModel(options));
  return std::make_unique<LosableModel>(std::move(model));
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  signal(SIGUSR1, [](int) { espalier::is_lost = 1; });
  espalier::v1::VerifierConfig config;
  if (auto done = espalier::ConfigFromFlags(argc, argv,
                                            {"losing-verifier", "For tests."},
                                            config, signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(
      espalier::verifier::RunVerifier(config, signals, espalier::Load));
}
