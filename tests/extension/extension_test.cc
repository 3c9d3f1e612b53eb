// A drafter, a rule and a policy that the product does not know, in a cluster
// of its engines: they are registered and requested by name, and the text is
// that of plain decoding.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/merge/merge_policies.h"
#include "coordinator/rounds/coordinator.h"
#include "drafter/engine/draft_engine.h"
#include "gtest/gtest.h"
#include "tests/extension/plugins/plugins.h"
#include "tests/testing/fake_executor.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::extension {
namespace {

using coordinator::GenerationReport;
using verifier::Text;

const ScriptedLanguageModel::Options kScript;

void RegisterRules(Registry<verifier::VerificationRule>& rules) {
  verifier::RegisterVerificationRules(rules);
  RegisterFirstTokenRule(rules);
}

// A draft engine whose thread is the test's.
struct Drafting {
  explicit Drafting(prometheus::Registry& metrics, const std::string& name) {
    drafter::DrafterRegistry registry("drafter");
    drafter::RegisterDrafters(registry);
    RegisterEchoDrafter(registry);
    auto drafter = registry.Create("echo", drafter::DrafterOptions());
    EXPECT_TRUE(drafter.ok()) << drafter.status();
    auto owned = std::make_unique<FakeExecutor>();
    executor = owned.get();
    engine = std::make_unique<drafter::DraftEngine>(
        drafter::DraftEngine::Options{.name = name,
                                      .vocab_size = kScript.vocab_size},
        *std::move(drafter), std::move(owned),
        drafter::MakeDrafterMetrics(metrics, name));
  }

  FakeExecutor* executor;  // the engine's
  std::unique_ptr<drafter::DraftEngine> engine;
};

struct Answer {
  Text tokens;
  std::optional<absl::Status> status;
  GenerationReport report;
};

class AnswerSink final : public coordinator::TokenSink {
 public:
  explicit AnswerSink(Answer* answer) : answer_(*answer) {}
  void OnTokens(const coordinator::OutputPiece& piece) override {
    answer_.tokens.insert(answer_.tokens.end(), piece.tokens.begin(),
                          piece.tokens.end());
  }
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override {
    answer_.status = status;
    answer_.report = report;
  }

 private:
  Answer& answer_;
};

// Decodes with two drafters. The second never answers, and no clock moves: a
// round that waited for it would not end.
Answer Decode(coordinator::GenerationRequest request) {
  FakeExecutor executor;
  prometheus::Registry metrics;
  Drafting first(metrics, "first"), hung(metrics, "hung");
  verifier::EngineHarness verifying(kScript, {}, RegisterRules);
  Registry<coordinator::MergePolicy> policies("strategy");
  coordinator::RegisterMergePolicies(policies);
  RegisterSoonestPolicy(policies);
  auto coordinator = coordinator::Coordinator::Create(
      {.executor = &executor,
       .drafters = {{.name = "first", .endpoint = first.engine.get()},
                    {.name = "hung", .endpoint = hung.engine.get()}},
       .verifier = verifying.engine.get(),
       .verifier_info = [&] { return verifying.engine->info(); },
       .policies = &policies,
       .metrics = &metrics});
  EXPECT_TRUE(coordinator.ok()) << coordinator.status();
  Answer answer;
  (*coordinator)
      ->Start(std::move(request), std::make_unique<AnswerSink>(&answer));
  FakeExecutor* const running[] = {&executor, first.executor,
                                   verifying.executor};
  for (bool any = true; any;) {
    any = false;
    for (FakeExecutor* of_engine : running) any |= of_engine->RunOne();
  }
  return answer;
}

TEST(Extension, PluginsOfAnotherFolderDecodeATextTogether) {
  for (float temperature : {0.0f, 1.0f}) {
    coordinator::GenerationRequest request;
    request.request_id = "r";
    request.prompt = {3, 1, 4, 1, 5};
    request.sampling = {.temperature = temperature, .seed = 9};
    request.max_tokens = 20;
    request.ignore_eos = true;
    request.speculation.strategy = "soonest";
    request.speculation.rule = "first-token";
    const Answer answer = Decode(request);
    ASSERT_TRUE(answer.status.has_value()) << "the round waited";
    EXPECT_TRUE(answer.status->ok()) << *answer.status;
    Text plain = verifier::PlainText(kScript, request.prompt, request.sampling,
                                     /*length=*/25);
    plain.erase(plain.begin(), plain.begin() + 5);
    EXPECT_EQ(answer.tokens, plain);
    EXPECT_EQ(answer.report.spec.strategy, "soonest");
    EXPECT_EQ(answer.report.spec.rule, "first-token");
    EXPECT_GT(answer.report.spec.drafters[0].proposed, 0);
    EXPECT_EQ(answer.report.spec.drafters[1].proposed, 0);
    EXPECT_EQ(answer.report.spec.drafters[1].timeouts, 0);
  }
}

}  // namespace
}  // namespace espalier::extension
