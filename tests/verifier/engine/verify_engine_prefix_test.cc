// Sessions whose texts begin alike: what is computed once, and that text and
// features are those of computing everything.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"
#include "tests/verifier/storing_model.h"

namespace espalier::verifier::verify_engine_prefix_test {
namespace {

const std::vector<int32_t> kTaps = {0, 2, 4};

Client ClientOf(uint64_t number, Text text) {
  return {.id = {1, number}, .text = std::move(text)};
}

Text Prompt(int64_t length, TokenId first = 1) {
  Text text(length);
  std::iota(text.begin(), text.end(), first);
  for (TokenId& token : text) token %= 37;
  return text;
}

FeatureRows StatesOf(const Text& text, int64_t end,
                     const std::vector<int32_t>& taps) {
  FeatureRows rows = {.width = static_cast<int64_t>(taps.size()) *
                               ScriptedLanguageModel::kHiddenSize};
  for (int64_t i = 0; i < end; ++i) {
    for (int32_t tap : taps) {
      for (float value : ScriptedLanguageModel::StateAt(
               tap, absl::MakeConstSpan(text).first(i + 1))) {
        rows.data.push_back(FloatToBf16(value));
      }
    }
  }
  return rows;
}

class VerifyEnginePrefix : public ::testing::Test {
 protected:
  VerifyEnginePrefix() { CountRows(harness_); }

  void CountRows(EngineHarness& harness) {
    harness.model->set_pass_hook([this](absl::Span<const SequenceRows> batch) {
      for (const SequenceRows& part : batch) rows_ += std::ssize(part.tokens);
      return absl::OkStatus();
    });
  }

  // Asks for one round and ends the sequence. Returns the rows that it took.
  int64_t RunOnce(EngineHarness& harness, Client& client,
                  VerifyRequest request) {
    rows_ = 0;
    const auto reply = harness.Ask(std::move(request));
    EXPECT_TRUE(reply.ok()) << reply.status();
    last_ = *reply;
    const Text before = client.text;
    client.Commit(last_);
    EXPECT_EQ(client.text, PlainText(harness.script, before, client.sampling,
                                     std::ssize(client.text)));
    harness.engine->EndSequence(client.id);
    harness.executor->RunUntilIdle();
    return rows_;
  }
  int64_t RunOnce(Client& client) {
    return RunOnce(harness_, client, client.Request());
  }
  int64_t RunOnce(Client& client, std::vector<int32_t> taps) {
    VerifyRequest request = client.Request();
    request.features.taps = std::move(taps);
    return RunOnce(harness_, client, std::move(request));
  }

  EngineHarness harness_{{.block_tokens = 8, .shares_kv = true},
                         {.max_batch_rows = 16}};
  int64_t rows_ = 0;
  VerifyResult last_;
};

TEST_F(VerifyEnginePrefix, ASecondRequestComputesOnlyTheLastBlock) {
  Client first = ClientOf(1, Prompt(60)), second = ClientOf(2, Prompt(60));
  EXPECT_EQ(RunOnce(first), 60);
  EXPECT_EQ(last_.cached_tokens, 0);
  EXPECT_EQ(RunOnce(second), 4);
  EXPECT_EQ(last_.cached_tokens, 56);
  EXPECT_EQ(second.text, first.text);
}

// The root's row is the one that gives the first token.
TEST_F(VerifyEnginePrefix, TheRootIsComputedThoughItsBlockIsCached) {
  Client first = ClientOf(1, Prompt(65)), second = ClientOf(2, Prompt(64));
  RunOnce(first);
  EXPECT_EQ(RunOnce(second), 8);
}

TEST_F(VerifyEnginePrefix, TheNextTurnOfAChatContinuesTheAnswer) {
  Client client = ClientOf(1, Prompt(30));
  for (int round = 0; round < 20; ++round) {
    client.Commit(*harness_.Ask(client.Request()));
  }
  harness_.engine->EndSequence(client.id);
  Text next = client.text;
  next.insert(next.end(), {30, 31, 32});
  Client turn = ClientOf(2, next);
  EXPECT_EQ(RunOnce(turn), 53 - 48);
}

TEST_F(VerifyEnginePrefix, ADifferentBeginningSharesNothing) {
  Client first = ClientOf(1, Prompt(60)), second = ClientOf(2, Prompt(60, 2));
  RunOnce(first);
  EXPECT_EQ(RunOnce(second), 60);
}

TEST_F(VerifyEnginePrefix, AnotherSaltSharesNothing) {
  uint64_t number = 0;
  for (const auto& [salt, rows] : std::vector<std::pair<std::string, int64_t>>{
           {"", 60}, {"a", 60}, {"a", 4}, {"b", 60}, {"", 4}}) {
    Client client = ClientOf(++number, Prompt(60));
    VerifyRequest request = client.Request();
    request.update.cache_salt = salt;
    EXPECT_EQ(RunOnce(harness_, client, request), rows) << salt;
  }
}

TEST_F(VerifyEnginePrefix, NothingIsSharedWhereItIsSwitchedOff) {
  EngineHarness harness({.block_tokens = 8, .shares_kv = true},
                        {.max_batch_rows = 16, .shares_prefixes = false});
  CountRows(harness);
  for (uint64_t number : {1, 2}) {
    Client client = ClientOf(number, Prompt(60));
    EXPECT_EQ(RunOnce(harness, client, client.Request()), 60);
  }
}

// The sessions are like the outputs of one request with n > 1.
TEST_F(VerifyEnginePrefix, SessionsThatComeTogetherComputeTheirPromptOnce) {
  std::vector<Client> clients;
  std::vector<std::shared_ptr<Reply>> replies;
  for (uint64_t i = 0; i < 4; ++i) {
    clients.push_back(ClientOf(i, Prompt(129)));
    clients.back().sampling = {.temperature = 1.0f, .seed = i};
    replies.push_back(harness_.Send(clients.back().Request()));
  }
  harness_.executor->RunUntilIdle();
  // At most one part of each pass is computed twice.
  EXPECT_LT(rows_, 129 + 4 * 16);
  for (size_t i = 0; i < clients.size(); ++i) {
    const Text before = clients[i].text;
    clients[i].Commit(**replies[i]->value);
    EXPECT_EQ(clients[i].text,
              PlainText(harness_.script, before, clients[i].sampling, 130));
  }
}

TEST_F(VerifyEnginePrefix, FeaturesOfACachedPromptAreThoseOfAComputedOne) {
  Client first = ClientOf(1, Prompt(60)), second = ClientOf(2, Prompt(60));
  EXPECT_EQ(RunOnce(first, kTaps), 60);
  const FeatureRows computed = last_.features;
  EXPECT_EQ(computed, StatesOf(first.text, 60, kTaps));
  EXPECT_EQ(RunOnce(second, kTaps), 4);
  EXPECT_EQ(last_.features, computed);
}

// Drafters beside the verifier find those of a cached prompt, too.
TEST_F(VerifyEnginePrefix, FeaturesOfACachedPromptAreStored) {
  StoringEngine storing({.block_tokens = 8, .shares_kv = true},
                        {.max_batch_rows = 16});
  for (uint64_t number : {1, 2}) {
    storing.notes = {};
    Client client = ClientOf(number, Prompt(60));
    VerifyRequest request = client.Request();
    request.features.store = {{0, 4}, {2}};
    const auto reply = storing.engine.Ask(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->features.empty());
    EXPECT_EQ(storing.notes.num_rows, number == 1 ? 60 : 4);
    // Each contract gets every position once, in their order.
    for (const std::vector<int32_t>& taps : request.features.store) {
      int64_t next = 0;
      for (const StoringModel::Rows& rows : storing.notes.stored) {
        if (rows.taps != taps) continue;
        EXPECT_EQ(rows.begin, next);
        next = rows.end;
        if (!rows.values.empty()) {
          EXPECT_EQ(rows.values, StatesOf(client.text, rows.end, taps).data);
        }
      }
      EXPECT_EQ(next, 60);
    }
    for (const auto& segments : reply->stored.contracts) {
      EXPECT_TRUE(AreConsecutive(segments));
      EXPECT_EQ(segments.front().first_position, 0);
      EXPECT_EQ(segments.back().end_position(), 60);
    }
    client.Commit(*reply);
    storing.engine.engine->EndSequence(client.id);
    storing.engine.executor->RunUntilIdle();
  }
}

TEST_F(VerifyEnginePrefix, FewerTapsAreServedFromMore) {
  Client first = ClientOf(1, Prompt(60)), second = ClientOf(2, Prompt(60));
  RunOnce(first, kTaps);
  EXPECT_EQ(RunOnce(second, {0, 4}), 4);
  EXPECT_EQ(last_.features, StatesOf(second.text, 60, {0, 4}));
}

// The K/V is there, but a head without features would draft badly.
TEST_F(VerifyEnginePrefix, FeaturesThatNobodyKeptAreComputedOnce) {
  Client plain = ClientOf(1, Prompt(60));
  RunOnce(plain);
  for (const auto& [taps, rows] :
       std::vector<std::pair<std::vector<int32_t>, int64_t>>{
           {{0, 4}, 60}, {kTaps, 60}, {{0, 4}, 4}, {{}, 4}}) {
    Client client = ClientOf(2 + harness_.model->num_passes(), Prompt(60));
    EXPECT_EQ(RunOnce(client, taps), rows);
    if (!taps.empty()) {
      EXPECT_EQ(last_.features, StatesOf(client.text, 60, taps));
    }
  }
}

// A coordinator that has the features itself, as after a restart.
TEST_F(VerifyEnginePrefix, FeaturesThatTheSenderHasAreNotNeeded) {
  Client plain = ClientOf(1, Prompt(60)), other = ClientOf(2, Prompt(60));
  RunOnce(plain);
  VerifyRequest request = other.Request();
  request.features = {.taps = kTaps, .first_position = 43};
  EXPECT_EQ(RunOnce(harness_, other, std::move(request)), 20);
  EXPECT_EQ(last_.features.first_position, 43);
  EXPECT_EQ(last_.features.num_rows(), 17);
}

TEST_F(VerifyEnginePrefix, FeaturesOfTheAnswerAreKeptBlockByBlock) {
  Client client = ClientOf(1, Prompt(30));
  for (int round = 0; round < 20; ++round) {
    VerifyRequest request = client.Request();
    request.features = {.taps = kTaps,
                        .first_position = std::ssize(client.text) - 1};
    if (round == 0) request.features.first_position = 0;
    client.Commit(*harness_.Ask(request));
  }
  harness_.engine->EndSequence(client.id);
  Client turn = ClientOf(2, client.text);
  EXPECT_EQ(RunOnce(turn, kTaps), 50 - 48);
  EXPECT_EQ(last_.features, StatesOf(turn.text, 50, kTaps));
}

// Random requests over few texts, with and without features, ended at random:
// every text and every feature is right.
class VerifyEnginePrefixProperty
    : public VerifyEnginePrefix,
      public ::testing::WithParamInterface<uint64_t> {};

TEST_P(VerifyEnginePrefixProperty, TextsAndFeaturesAreThoseOfComputing) {
  std::mt19937_64 random(GetParam());
  EngineHarness harness(
      {.pool_tokens = 240, .block_tokens = 8, .shares_kv = true},
      {.max_batch_rows = 16, .max_feature_bytes = 20000});
  CountRows(harness);
  uint64_t number = 0;
  const auto draw = [&] {
    Client client = ClientOf(++number, Prompt(20 + random() % 30));
    if (random() % 3 == 0) client.text[random() % 20] = 38;
    return client;
  };
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(draw());
  int64_t cached = 0;
  for (int step = 0; step < 120; ++step) {
    std::vector<std::shared_ptr<Reply>> replies;
    std::vector<std::vector<int32_t>> taps;
    for (Client& client : clients) {
      taps.push_back(random() % 2 ? kTaps : std::vector<int32_t>{2});
      if (random() % 4 == 0) taps.back().clear();
      VerifyRequest request = client.Request();
      request.features.taps = taps.back();
      request.max_length = 80;
      replies.push_back(harness.Send(std::move(request)));
    }
    for (const auto& reply : replies) {
      while (!reply->value) harness.executor->AdvanceBy(absl::Seconds(1));
      ASSERT_TRUE(reply->value->ok()) << reply->value->status();
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      const VerifyResult& result = **replies[i]->value;
      cached += result.cached_tokens;
      const Text before = clients[i].text;
      clients[i].Commit(result);
      ASSERT_EQ(clients[i].text, PlainText(harness.script, before, {},
                                           std::ssize(clients[i].text)));
      if (!taps[i].empty()) {
        FeatureRows all =
            StatesOf(clients[i].text, std::ssize(before), taps[i]);
        all.CutBefore(result.features.first_position);
        ASSERT_EQ(result.features, all);
      }
      if (std::ssize(clients[i].text) > 78 || random() % 4 == 0) {
        harness.engine->EndSequence(clients[i].id);
        clients[i] = draw();
      }
    }
  }
  EXPECT_GT(cached, 300);
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerifyEnginePrefixProperty,
                         ::testing::Range<uint64_t>(0, 10));

}  // namespace
}  // namespace espalier::verifier::verify_engine_prefix_test
