#ifndef ESPALIER_TESTS_VERIFIER_ENGINE_HARNESS_H_
#define ESPALIER_TESTS_VERIFIER_ENGINE_HARNESS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/check.h"
#include "common/speculation/prefix_hash.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"
#include "verifier/distributions/distribution_transform.h"
#include "verifier/engine/verify_engine.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {

using Text = std::vector<TokenId>;

// The answer to one request, once it has arrived.
struct Reply {
  std::optional<absl::StatusOr<VerifyResult>> value;
  int times_answered = 0;
};

// Lists the rules of an engine.
using RegisterRules = absl::FunctionRef<void(Registry<VerificationRule>&)>;

// A VerifyEngine on an executor that the test runs.
struct EngineUnderTest {
  EngineUnderTest(std::unique_ptr<LanguageModel> model,
                  const VerifyEngine::Options& options,
                  RegisterRules register_rules = RegisterVerificationRules) {
    auto owned_executor = std::make_unique<FakeExecutor>();
    executor = owned_executor.get();
    Registry<VerificationRule> rules("rule");
    register_rules(rules);
    auto created = VerifyEngine::Create(
        options, std::move(model), std::move(owned_executor), rules, metrics);
    ESPALIER_CHECK(created.ok());
    engine = *std::move(created);
  }

  std::shared_ptr<Reply> Send(VerifyRequest request,
                              absl::Time deadline = absl::InfiniteFuture()) {
    auto reply = std::make_shared<Reply>();
    engine->Verify(std::move(request), deadline,
                   [reply](absl::StatusOr<VerifyResult> verify_result) {
                     reply->value = std::move(verify_result);
                     ++reply->times_answered;
                   });
    return reply;
  }

  absl::StatusOr<VerifyResult> Ask(VerifyRequest request) {
    const auto reply = Send(std::move(request));
    executor->RunUntilIdle();
    ESPALIER_CHECK(reply->times_answered == 1);
    return *reply->value;
  }

  prometheus::Registry metrics;
  FakeExecutor* executor = nullptr;  // the engine's
  std::unique_ptr<VerifyEngine> engine;
};

// One with a scripted model.
struct EngineHarness : EngineUnderTest {
  explicit EngineHarness(
      const ScriptedLanguageModel::Options& script_ = {},
      const VerifyEngine::Options& options = {},
      RegisterRules register_rules = RegisterVerificationRules)
      : EngineHarness(new ScriptedLanguageModel(script_), script_, options,
                      register_rules) {}

  ScriptedLanguageModel::Options script;
  ScriptedLanguageModel* model;  // the engine's

 private:
  EngineHarness(ScriptedLanguageModel* new_model,
                const ScriptedLanguageModel::Options& script_,
                const VerifyEngine::Options& options,
                RegisterRules register_rules)
      : EngineUnderTest(std::unique_ptr<LanguageModel>(new_model), options,
                        register_rules),
        script(script_),
        model(new_model) {}
};

// Returns the text without speculation: token after token from the target's
// distribution.
inline Text PlainText(const ScriptedLanguageModel::Options& script, Text text,
                      const SamplingParams& sampling, int64_t length) {
  DistributionTransform transform;
  GumbelSampler sampler(sampling.seed);
  while (static_cast<int64_t>(text.size()) < length) {
    const auto row = ScriptedLanguageModel::LogitsAfter(script, text);
    const auto distribution = transform.Apply(row, sampling);
    text.push_back(
        sampler.SampleToken(static_cast<int64_t>(text.size()), *distribution));
  }
  return text;
}

// The coordinator's side of one sequence.
struct Client {
  SequenceId id;
  Text text;
  SamplingParams sampling = {};
  uint64_t round = 1;
  int64_t held = 0;  // tokens that the verifier has

  VerifyRequest Request(TokenTree tree) const {
    VerifyRequest request;
    request.update = {
        .sequence = id,
        .round = round,
        .base_length = held,
        .prefix_hash = PrefixHash(absl::MakeConstSpan(text).first(held)),
        .new_tokens = Text(text.begin() + held, text.end()),
        .sampling = sampling};
    request.tree = std::move(tree);
    request.rule = "auto";
    return request;
  }
  VerifyRequest Request() const {
    return Request(TokenTree::RootOnly(text.back()));
  }

  void Commit(const VerifyResult& verify_result) {
    ESPALIER_CHECK(verify_result.round == round);
    text.insert(text.end(), verify_result.tokens.begin(),
                verify_result.tokens.end());
    held = static_cast<int64_t>(text.size());
    ++round;
  }
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_ENGINE_HARNESS_H_
