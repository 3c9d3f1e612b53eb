// Bad requests, full pools, failing models, ended sequences: each gives a clear
// error for that request, and the engine continues.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier::verify_engine_faults_test {
namespace {

using ::testing::HasSubstr;

const Text kPrompt = {7, 3, 31, 12, 5, 9, 22, 14, 1, 8, 30};

absl::StatusCode CodeOf(const std::shared_ptr<Reply>& reply) {
  EXPECT_EQ(reply->times_answered, 1);
  return reply->value ? reply->value->status().code() : absl::StatusCode::kOk;
}

double GaugeValue(prometheus::Registry& metrics, const std::string& name) {
  for (const auto& family : metrics.Collect()) {
    if (family.name == name) return family.metric.at(0).gauge.value;
  }
  ADD_FAILURE() << "no " << name;
  return -1;
}

// An engine with two sessions; its model's device is lost when `hook` says so.
class LostModelTest : public ::testing::Test {
 protected:
  LostModelTest() {
    for (Client* client : {&first_, &second_}) {
      client->Commit(*harness_.Ask(client->Request()));
    }
  }

  void Lose() {
    harness_.model->set_pass_hook([this](absl::Span<const SequenceRows>) {
      ++passes_;
      return absl::UnavailableError("the device is gone");
    });
  }

  std::vector<absl::Status> losses_;
  int passes_ = 0;
  EngineHarness harness_{
      {},
      {.pass_costs = {{1, absl::Milliseconds(1)}, {32, absl::Milliseconds(2)}},
       .on_model_lost = [this](const absl::Status& status) {
         losses_.push_back(status);
       }}};
  Client first_ = {.id = {1, 1}, .text = kPrompt};
  Client second_ = {.id = {1, 2}, .text = kPrompt};
};

TEST_F(LostModelTest, EveryRequestIsUnavailableAndTheModelLeftAlone) {
  Lose();
  const auto one = harness_.Send(first_.Request());
  const auto other = harness_.Send(second_.Request());
  harness_.executor->RunUntilIdle();
  EXPECT_EQ(CodeOf(one), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(other), absl::StatusCode::kUnavailable);
  EXPECT_EQ(passes_, 1);  // no member alone
  ASSERT_EQ(losses_.size(), 1u);
  EXPECT_THAT(std::string(losses_[0].message()),
              HasSubstr("the device is gone"));
  EXPECT_TRUE(absl::IsUnavailable(harness_.Ask(first_.Request()).status()));
  harness_.engine->EndSequence(second_.id);
  harness_.executor->AdvanceBy(absl::Seconds(30));
  EXPECT_EQ(passes_, 1);
  EXPECT_EQ(losses_.size(), 1u);
}

TEST_F(LostModelTest, AMeasurementWhileIdleFindsIt) {
  Lose();
  harness_.executor->AdvanceBy(absl::Seconds(30));
  EXPECT_EQ(passes_, 1);
  EXPECT_EQ(losses_.size(), 1u);
}

TEST_F(LostModelTest, AFullPoolIsNoLoss) {
  harness_.model->set_pass_hook([](absl::Span<const SequenceRows>) {
    return absl::ResourceExhaustedError("the K/V pool is full");
  });
  EXPECT_TRUE(
      absl::IsResourceExhausted(harness_.Ask(first_.Request()).status()));
  harness_.model->set_pass_hook(nullptr);
  EXPECT_TRUE(harness_.Ask(first_.Request()).ok());
  EXPECT_TRUE(losses_.empty());
}

struct BadRequest {
  const char* name;
  void (*spoil)(VerifyRequest&);
  const char* message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.name; }

class RefusedRequest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(RefusedRequest, IsNamedAndLeavesTheSessionAsItWas) {
  EngineHarness harness({}, {.max_tree_nodes = 6});
  Client client = {.id = {1, 1}, .text = kPrompt};
  client.Commit(*harness.Ask(client.Request()));
  client.text.push_back(4);

  VerifyRequest request = client.Request();
  GetParam().spoil(request);
  const auto refused = harness.Ask(std::move(request));
  EXPECT_EQ(refused.status().code(), GetParam().code);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(GetParam().message));

  const Text start = client.text;
  const auto verify_result = harness.Ask(client.Request());
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  client.Commit(*verify_result);
  EXPECT_EQ(client.text,
            PlainText(harness.script, start, {}, start.size() + 1));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedRequest,
    ::testing::Values(
        BadRequest{"NegativeBase",
                   [](VerifyRequest& r) { r.update.base_length = -1; },
                   "base_length -1"},
        BadRequest{"EnormousBase",
                   [](VerifyRequest& r) {
                     r.update.base_length = std::numeric_limits<int64_t>::max();
                   },
                   "max_context is 200", absl::StatusCode::kOutOfRange},
        BadRequest{"TooLong",
                   [](VerifyRequest& r) { r.update.new_tokens.resize(500); },
                   "max_context is 200", absl::StatusCode::kOutOfRange},
        BadRequest{"NoTokens",
                   [](VerifyRequest& r) {
                     r.update.base_length = 0;
                     r.update.new_tokens.clear();
                   },
                   "no committed tokens"},
        BadRequest{"HashOfNothing",
                   [](VerifyRequest& r) {
                     r.update.base_length = 0;
                     r.update.prefix_hash = 5;
                   },
                   "prefix_hash"},
        BadRequest{
            "TokenAboveVocabulary",
            [](VerifyRequest& r) { r.update.new_tokens[0] = 40; },
            "new_tokens: token 40 at index 0 outside the vocabulary of 40"},
        BadRequest{"TokenBelowVocabulary",
                   [](VerifyRequest& r) { r.update.new_tokens[0] = -1; },
                   "new_tokens: token -1 at index 0"},
        BadRequest{"Temperature",
                   [](VerifyRequest& r) { r.update.sampling.temperature = -1; },
                   "temperature"},
        BadRequest{"EmptyTree", [](VerifyRequest& r) { r.tree = TokenTree(); },
                   "draft tree"},
        BadRequest{"WrongRoot", [](VerifyRequest& r) { r.tree.tokens[0] = 5; },
                   "root token 5 is not the last committed token 4"},
        BadRequest{"CyclicTree",
                   [](VerifyRequest& r) {
                     r.tree.Add(0, 1, 0.0f);
                     r.tree.Add(1, 1, 0.0f);
                     r.tree.parents[1] = 2;
                   },
                   "node 1: parent 2"},
        BadRequest{"LargeTree",
                   [](VerifyRequest& r) {
                     for (int i = 0; i < 7; ++i) r.tree.Add(0, i, 0.0f);
                   },
                   "7 nodes, limit 6"},
        BadRequest{"TreeTokenOutsideVocabulary",
                   [](VerifyRequest& r) { r.tree.Add(0, 40, 0.0f); },
                   "vocabulary of 40"},
        BadRequest{"UnknownRule", [](VerifyRequest& r) { r.rule = "wlak"; },
                   "unknown rule \"wlak\"; known: auto, "},
        BadRequest{"PastRound", [](VerifyRequest& r) { r.update.round = 0; },
                   "round 0 is over: round 1"}),
    [](const auto& named) { return named.param.name; });

TEST(VerifyEngineFaults, OnlySoManySessionsAreOpenAtOnce) {
  EngineHarness harness({}, {.max_sessions = 2});
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        harness.Ask(Client{.id = {1, i}, .text = kPrompt}.Request()).ok());
  }
  const Client third = {.id = {1, 3}, .text = kPrompt};
  EXPECT_EQ(harness.Ask(third.Request()).status().code(),
            absl::StatusCode::kResourceExhausted);
  harness.engine->EndSequence({1, 0});
  EXPECT_TRUE(harness.Ask(third.Request()).ok());
}

TEST(VerifyEngineFaults, AnEndedSequenceGivesBackWhatItHeld) {
  EngineHarness harness;
  const Client client = {.id = {1, 1}, .text = kPrompt};
  EXPECT_TRUE(harness.Ask(client.Request()).ok());
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_sessions_open"), 1);
  EXPECT_GT(GaugeValue(harness.metrics, "espalier_kv_cache_usage_ratio"), 0);
  harness.engine->EndSequence(client.id);
  harness.engine->EndSequence(client.id);
  harness.engine->EndSequence({8, 8});
  harness.executor->RunUntilIdle();
  EXPECT_EQ(harness.model->num_sequences(), 0);
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_sessions_open"), 0);
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_kv_cache_usage_ratio"), 0);
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_kv_tokens_used"), 0);
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_kv_tokens_capacity"), 1000);
}

TEST(VerifyEngineFaults, ASequenceEndedWhileItWaitsCostsNoPass) {
  EngineHarness harness;
  const Client client = {.id = {1, 1}, .text = kPrompt};
  const auto reply = harness.Send(client.Request());
  harness.engine->EndSequence(client.id);
  harness.executor->RunUntilIdle();
  EXPECT_EQ(CodeOf(reply), absl::StatusCode::kCancelled);
  EXPECT_EQ(harness.model->num_passes(), 0);
  EXPECT_EQ(harness.model->num_sequences(), 0);
}

TEST(VerifyEngineFaults, ASequenceEndedInItsPromptStopsThere) {
  EngineHarness harness({}, {.max_batch_rows = 2});
  const Client client = {.id = {1, 1}, .text = kPrompt};
  const auto reply = harness.Send(client.Request());
  while (harness.model->num_passes() < 2) harness.executor->RunOne();
  harness.engine->EndSequence(client.id);
  harness.executor->RunUntilIdle();
  EXPECT_EQ(CodeOf(reply), absl::StatusCode::kCancelled);
  EXPECT_LE(harness.model->num_passes(), 3);
}

TEST(VerifyEngineFaults, ARequestSentAgainWhileItWaitsReplacesTheFirst) {
  EngineHarness harness;
  const Client client = {.id = {1, 1}, .text = kPrompt};
  const auto first = harness.Send(client.Request());
  const auto second = harness.Send(client.Request());
  harness.executor->RunUntilIdle();
  EXPECT_EQ(CodeOf(first), absl::StatusCode::kCancelled);
  EXPECT_EQ(CodeOf(second), absl::StatusCode::kOk);
  EXPECT_EQ(harness.model->num_passes(), 1);
}

TEST(VerifyEngineFaults, APassedDeadlineCostsNoPass) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  const auto late = harness.Send(client.Request(), harness.executor->Now());
  harness.executor->RunUntilIdle();
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(harness.model->num_passes(), 0);
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(harness.script, kPrompt, {}, kPrompt.size() + 1));
}

TEST(VerifyEngineFaults, IdleSessionsAreDroppedAndBusyOnesStay) {
  EngineHarness harness({}, {.session_ttl = absl::Minutes(10)});
  const Client idle = {.id = {1, 1}, .text = kPrompt};
  Client busy = {.id = {1, 2}, .text = kPrompt};
  EXPECT_TRUE(harness.Ask(idle.Request()).ok());
  for (int i = 0; i < 6; ++i) {
    busy.Commit(*harness.Ask(busy.Request()));
    harness.executor->AdvanceBy(absl::Minutes(4));
  }
  EXPECT_EQ(harness.model->num_sequences(), 1);
  harness.executor->AdvanceBy(absl::Minutes(20));
  EXPECT_EQ(harness.model->num_sequences(), 0);
  EXPECT_EQ(GaugeValue(harness.metrics, "espalier_sessions_open"), 0);
}

TEST(VerifyEngineFaults, AFailedPassIsInternalAndMayBeTriedAgain) {
  // The first pass is the prompt's, the second the tree's.
  for (int failing : {1, 2}) {
    EngineHarness harness({}, {.max_batch_rows = 10});
    int passes = 0;
    harness.model->set_pass_hook([&](absl::Span<const SequenceRows>) {
      return ++passes == failing ? absl::UnknownError("device lost")
                                 : absl::OkStatus();
    });
    Client client = {.id = {1, 1}, .text = kPrompt};
    const auto failed = harness.Ask(client.Request());
    EXPECT_EQ(failed.status(),
              absl::InternalError("target model: device lost"));
    client.Commit(*harness.Ask(client.Request()));
    EXPECT_EQ(client.text,
              PlainText(harness.script, kPrompt, {}, kPrompt.size() + 1));
  }
}

TEST(VerifyEngineFaults, LogitsThatAreNoNumbersAreInternalAndNameTheNode) {
  EngineHarness harness;
  harness.model->set_spoil(
      [](std::vector<float>& row) { row[17] = std::nanf(""); });
  for (float temperature : {0.0f, 1.0f}) {
    Client client = {.id = {1, temperature > 0},
                     .text = kPrompt,
                     .sampling = {.temperature = temperature}};
    const auto failed = harness.Ask(client.Request());
    EXPECT_EQ(failed.status(),
              absl::InternalError("target model: after node 0: logit of token "
                                  "17 is nan"));
  }
}

TEST(VerifyEngineFaults, OptionsOutOfRangeAreRefused) {
  Registry<VerificationRule> rules("rule");
  for (const VerifyEngine::Options& bad :
       {VerifyEngine::Options{.max_sessions = 0},
        VerifyEngine::Options{.max_tree_nodes = -1},
        VerifyEngine::Options{.max_batch_rows = 0},
        VerifyEngine::Options{.session_ttl = absl::ZeroDuration()}}) {
    prometheus::Registry metrics;
    const auto engine =
        VerifyEngine::Create(bad,
                             std::make_unique<ScriptedLanguageModel>(
                                 ScriptedLanguageModel::Options{}),
                             std::make_unique<FakeExecutor>(), rules, metrics);
    EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(VerifierMetrics, ObserveEveryStageOfARound) {
  prometheus::Registry registry;
  VerifierMetrics metrics(registry, "tiny", {});
  VerifyResult verify_result;
  verify_result.near_ties = 2;
  verify_result.timings.forward = absl::Milliseconds(3);
  metrics.ObserveRound(verify_result);
  verify_result.timings.prefill = absl::Milliseconds(5);
  metrics.ObserveRound(verify_result);

  std::map<std::string, uint64_t> counts;
  for (const auto& family : registry.Collect()) {
    if (family.name != "espalier_step_stage_seconds") continue;
    for (const auto& metric : family.metric) {
      counts[metric.label.at(0).value] = metric.histogram.sample_count;
    }
  }
  EXPECT_THAT(counts, ::testing::ElementsAre(
                          std::pair("accept", 2), std::pair("compact", 2),
                          std::pair("prefill", 1),  // rounds that had one
                          std::pair("verify_forward", 2),
                          std::pair("verify_queue", 2)));
  EXPECT_EQ(metrics.near_ties.Value(), 4);
  EXPECT_NEAR(metrics.forward_seconds.Collect().histogram.sample_sum, 0.006,
              1e-9);
}

}  // namespace
}  // namespace espalier::verifier::verify_engine_faults_test
