// espalier-verifier whose passes take at least ESPALIER_PACE_MS milliseconds,
// most of which no core works: in place of a target on a GPU, where there is
// none.
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/config/service_flags.h"
#include "common/model/load/load_model.h"
#include "common/rpc/shutdown_signals.h"
#include "tests/testing/language_model_decorator.h"
#include "verifier/verifier_server.h"

namespace espalier {
namespace {

class PacedModel final : public LanguageModelDecorator {
 public:
  PacedModel(std::unique_ptr<LanguageModel> model, absl::Duration pace)
      : LanguageModelDecorator(std::move(model)), pace_(pace) {}

  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    const absl::Time end = absl::Now() + pace_;
    auto rows = LanguageModelDecorator::Forward(batch);
    absl::SleepFor(end - absl::Now());
    return rows;
  }

 private:
  const absl::Duration pace_;
};

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const ModelOptions& options) {
  const char* pace = std::getenv("ESPALIER_PACE_MS");
  double milliseconds = 0;
  if (pace == nullptr || !absl::SimpleAtod(pace, &milliseconds)) {
    return absl::InvalidArgumentError("ESPALIER_PACE_MS is not a number");
  }
  ASSIGN_OR_RETURN(auto model, LoadModel(options));
  return std::make_unique<PacedModel>(std::move(model),
                                      absl::Milliseconds(milliseconds));
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  espalier::ShutdownSignals signals;
  espalier::v1::VerifierConfig config;
  if (auto done = espalier::ConfigFromFlags(
          argc, argv, {"paced-verifier", "For measurements."}, config,
          signals.reload())) {
    return *done;
  }
  return espalier::ExitStatus(
      espalier::verifier::RunVerifier(config, signals, espalier::Load));
}
