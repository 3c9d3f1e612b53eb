// What a session holds and which updates continue it, and whose session makes
// room for a new one.

#include "common/speculation/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"
#include "verifier/engine/verify_engine.h"

namespace espalier::verifier::verify_engine_sessions_test {
namespace {

const Text kPrompt = {7, 3, 31, 12, 5, 9, 22, 14, 1, 8, 30};

TEST(VerifyEngineSessions, ARepeatedRoundGetsTheSameVerifyResultWithoutAPass) {
  EngineHarness harness;
  Client client = {
      .id = {1, 1}, .text = kPrompt, .sampling = {.temperature = 1, .seed = 4}};
  const VerifyRequest request = client.Request();
  const auto first = harness.Ask(request);
  const int64_t passes = harness.model->num_passes();
  const auto again = harness.Ask(request);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(again->tokens, first->tokens);
  EXPECT_EQ(again->round, first->round);
  EXPECT_EQ(harness.model->num_passes(), passes);

  client.Commit(*again);
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text, PlainText(harness.script, kPrompt, client.sampling,
                                   kPrompt.size() + 2));
}

TEST(VerifyEngineSessions, AnAnswerIsNotRepeatedToWhoAsksSomethingElse) {
  EngineHarness harness;
  Client client = {
      .id = {1, 1}, .text = kPrompt, .sampling = {.temperature = 1, .seed = 4}};
  const VerifyRequest request = client.Request();
  ASSERT_TRUE(harness.Ask(request).ok());
  VerifyRequest seed = request;
  ++seed.update.sampling.seed;
  VerifyRequest text = request;
  text.update.new_tokens[0] = (text.update.new_tokens[0] + 1) % 4;
  VerifyRequest tree = request;
  tree.tree.Add(0, 1, -1);
  VerifyRequest hash = request;
  ++hash.update.prefix_hash;
  for (const VerifyRequest& other : {seed, text, tree, hash}) {
    EXPECT_TRUE(absl::IsInvalidArgument(harness.Ask(other).status()));
  }
  EXPECT_TRUE(harness.Ask(request).ok());
}

TEST(VerifyEngineSessions, ARepeatedRequestTakesThePlaceOfTheOneThatWaits) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  const auto first = harness.Send(client.Request());
  harness.executor->RunOne();
  const auto again = harness.Send(client.Request());
  harness.executor->RunUntilIdle();
  EXPECT_EQ(first->times_answered, 1);
  EXPECT_TRUE(absl::IsCancelled(first->value->status()));
  ASSERT_TRUE(again->value->ok());
  EXPECT_EQ(harness.model->num_passes(), 1);
}

TEST(VerifyEngineSessions, ARestartedVerifierIsFedAgainAndGoesOn) {
  const SamplingParams sampling = {.temperature = 1, .seed = 8};
  Client client = {.id = {1, 1}, .text = kPrompt, .sampling = sampling};
  {
    EngineHarness before;
    for (int i = 0; i < 5; ++i) client.Commit(*before.Ask(client.Request()));
  }
  EngineHarness after;
  const auto refused = after.Ask(client.Request());
  EXPECT_EQ(HeldLength(refused.status()), 0);
  client.held = 0;
  for (int i = 0; i < 5; ++i) client.Commit(*after.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(after.script, kPrompt, sampling, kPrompt.size() + 10));
}

TEST(VerifyEngineSessions, AGapIsAnsweredWithTheLengthHeld) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  client.Commit(*harness.Ask(client.Request()));
  const int64_t held = client.held;
  client.text.insert(client.text.end(), {1, 2, 3});
  client.held += 2;
  EXPECT_EQ(HeldLength(harness.Ask(client.Request()).status()), held);
  client.held = held;
  EXPECT_TRUE(harness.Ask(client.Request()).ok());
}

TEST(VerifyEngineSessions, OtherTokensAreAnsweredWithLengthZero) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  client.Commit(*harness.Ask(client.Request()));
  client.text[2] = 0;
  EXPECT_EQ(HeldLength(harness.Ask(client.Request()).status()), 0);
  client.held = 0;
  client.Commit(*harness.Ask(client.Request()));
  Text changed = kPrompt;
  changed[2] = 0;
  changed.push_back(client.text[kPrompt.size()]);
  EXPECT_EQ(client.text,
            PlainText(harness.script, changed, {}, changed.size() + 1));
}

TEST(VerifyEngineSessions, ASenderThatGoesBackReplacesWhatFollows) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (int i = 0; i < 4; ++i) client.Commit(*harness.Ask(client.Request()));
  client.held = static_cast<int64_t>(kPrompt.size()) - 3;
  client.text.resize(client.held);
  client.text.insert(client.text.end(), {17, 18});
  const Text start = client.text;
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(harness.script, start, {}, start.size() + 1));
}

// Its last token is the root, which the pass computes whatever is cached.
TEST(VerifyEngineSessions, ASenderThatForgotItsLastTokensGetsThemAgain) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (int round = 0; round < 4; ++round) {
    const auto verify_result = harness.Ask(client.Request());
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    client.Commit(*verify_result);
  }
  const Text whole = client.text;
  client.text.resize(whole.size() - 3);
  client.held = 0;
  for (int round = 0; round < 3; ++round) {
    const auto verify_result = harness.Ask(client.Request());
    ASSERT_TRUE(verify_result.ok()) << verify_result.status();
    client.Commit(*verify_result);
  }
  EXPECT_EQ(client.text, whole);
}

TEST(VerifyEngineSessions, TokensSentAgainAreNotComputedAgain) {
  EngineHarness harness;
  Client client = {.id = {1, 1}, .text = kPrompt};
  for (int i = 0; i < 4; ++i) client.Commit(*harness.Ask(client.Request()));
  const int64_t passes = harness.model->num_passes();
  client.held = 2;
  EXPECT_TRUE(harness.Ask(client.Request()).ok());
  EXPECT_EQ(harness.model->num_passes(), passes + 1);
}

// If one coordinator opens many sessions, the others still get their share.
TEST(VerifyEngineSessions, NobodyTakesAllSessions) {
  EngineHarness harness({}, {.max_sessions = 4});
  const auto client = [](uint64_t epoch, uint64_t number) {
    return Client{.id = {.coordinator_epoch = epoch, .number = number},
                  .text = {1, 2, 3}};
  };
  std::vector<Client> stranger;
  for (uint64_t i = 0; i < 4; ++i) {
    stranger.push_back(client(66, i));
    EXPECT_TRUE(harness.Ask(stranger[i].Request()).ok());
  }
  EXPECT_EQ(harness.Ask(client(66, 4).Request()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(harness.Ask(client(7, 1).Request()).ok());
  EXPECT_TRUE(harness.Ask(client(7, 2).Request()).ok());
  EXPECT_EQ(harness.Ask(client(7, 3).Request()).status().code(),
            absl::StatusCode::kResourceExhausted);
  // Two of each are left.
  harness.engine->EndSequence(client(7, 1).id);
  harness.engine->EndSequence(client(7, 2).id);
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(harness.Ask(client(66, 8).Request()).ok());
  EXPECT_TRUE(harness.Ask(client(66, 9).Request()).ok());
}

// They would take turns for ever.
TEST(VerifyEngineSessions, NobodyGivesASessionToWhoWouldThenHoldMore) {
  EngineHarness harness({}, {.max_sessions = 3});
  const auto ask = [&harness](uint64_t epoch, uint64_t number) {
    const Client client = {.id = {.coordinator_epoch = epoch, .number = number},
                           .text = {1, 2, 3}};
    return harness.Ask(client.Request()).status();
  };
  EXPECT_TRUE(ask(66, 1).ok());
  EXPECT_TRUE(ask(66, 2).ok());
  EXPECT_TRUE(ask(7, 1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(ask(7, 2)));
}

TEST(VerifyEngineSessions, ASessionWithARequestKeepsItsPlace) {
  EngineHarness harness({}, {.max_sessions = 2});
  const auto send = [&harness](uint64_t epoch, uint64_t number) {
    const Client client = {.id = {.coordinator_epoch = epoch, .number = number},
                           .text = {1, 2, 3}};
    return harness.Send(client.Request());
  };
  const auto first = send(66, 1);
  const auto second = send(66, 2);
  const auto late = send(7, 1);
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(first->value->ok());
  EXPECT_TRUE(second->value->ok());
  EXPECT_TRUE(absl::IsResourceExhausted(late->value->status()));
}

TEST(VerifyEngineSessions, TheSessionUsedLeastRecentlyGivesItsPlace) {
  EngineHarness harness({}, {.max_sessions = 2});
  Client older = {.id = {66, 1}, .text = {1, 2, 3}};
  Client newer = {.id = {66, 2}, .text = {1, 2, 3}};
  older.Commit(*harness.Ask(older.Request()));
  harness.executor->AdvanceBy(absl::Milliseconds(10));
  newer.Commit(*harness.Ask(newer.Request()));
  const Client other = {.id = {7, 1}, .text = {1, 2, 3}};
  EXPECT_TRUE(harness.Ask(other.Request()).ok());
  EXPECT_TRUE(harness.Ask(newer.Request()).ok());
}

}  // namespace
}  // namespace espalier::verifier::verify_engine_sessions_test
