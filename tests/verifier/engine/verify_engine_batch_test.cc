// Several sessions in one pass: which requests share it, which times each
// reports, and that no session's text or errors affect another.

#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using absl::Milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;

const Text kPrompt = {7, 3, 31, 12, 5, 9, 22, 14, 1, 8, 30};

// Rows of each sequence in each pass.
using Passes = std::vector<std::vector<int64_t>>;

// Lists passes, each of which takes `time`.
Passes& Watch(EngineHarness& harness, Passes& passes,
              absl::Duration time = absl::ZeroDuration()) {
  harness.model->set_pass_hook(
      [&harness, &passes, time](absl::Span<const SequenceRows> batch) {
        passes.emplace_back();
        for (const SequenceRows& rows : batch) {
          passes.back().push_back(static_cast<int64_t>(rows.tokens.size()));
        }
        harness.executor->MoveClock(time);
        return absl::OkStatus();
      });
  return passes;
}

// `count` sessions that hold their prompts, each after one round.
std::vector<Client> OpenSessions(EngineHarness& harness, uint64_t count) {
  std::vector<Client> clients;
  for (uint64_t i = 0; i < count; ++i) {
    clients.push_back({.id = {1, i}, .text = kPrompt});
    clients[i].text[0] = static_cast<TokenId>(i);
    clients[i].Commit(*harness.Ask(clients[i].Request()));
  }
  return clients;
}

VerifyEngine::Options WithCosts(PassCosts costs) {
  VerifyEngine::Options options;
  options.identity.name = "tiny";
  options.pass_costs = std::move(costs);
  return options;
}

TokenTree Chain(TokenId root, int64_t nodes) {
  TokenTree tree = TokenTree::RootOnly(root);
  for (int32_t i = 0; i < nodes; ++i) tree.Add(i, 5, 0.0f);
  return tree;
}

// Applies the answer, which must equal plain decoding.
void ExpectGoesOn(const EngineHarness& harness, const Reply& reply,
                  Client& client) {
  ASSERT_TRUE(reply.value && reply.value->ok());
  const Text before = client.text;
  client.Commit(**reply.value);
  EXPECT_EQ(client.text, PlainText(harness.script, before, client.sampling,
                                   client.text.size()));
}

TEST(VerifyEngineBatch, AllThatWaitShareOnePass) {
  EngineHarness harness;
  std::vector<Client> clients = OpenSessions(harness, 4);
  Passes passes;
  Watch(harness, passes);
  std::vector<std::shared_ptr<Reply>> replies;
  for (const Client& client : clients) {
    replies.push_back(harness.Send(
        client.Request(Chain(client.text.back(), replies.size()))));
  }
  harness.executor->RunUntilIdle();
  EXPECT_THAT(passes, ElementsAre(ElementsAre(1, 2, 3, 4)));
  for (size_t i = 0; i < clients.size(); ++i) {
    ExpectGoesOn(harness, *replies[i], clients[i]);
  }
}

TEST(VerifyEngineBatch, AShortPromptAndItsTreeAreOnePass) {
  EngineHarness harness;
  Passes passes;
  Watch(harness, passes);
  Client client = {.id = {1, 1}, .text = kPrompt};
  const Text plain = PlainText(harness.script, kPrompt, {}, 14);
  TokenTree tree = TokenTree::RootOnly(kPrompt.back());
  tree.Add(tree.Add(0, plain[11], 0.0f), plain[12], 0.0f);
  const auto verify_result = harness.Ask(client.Request(tree));
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_THAT(passes, ElementsAre(ElementsAre(10 + 3)));
  EXPECT_THAT(verify_result->path, ElementsAre(1, 2));
  client.Commit(*verify_result);
  EXPECT_EQ(client.text, plain);
  // The kept rows are the cached ones: the next round continues from them.
  client.Commit(*harness.Ask(client.Request()));
  EXPECT_EQ(client.text,
            PlainText(harness.script, kPrompt, {}, client.text.size()));
}

TEST(VerifyEngineBatch, ALongPromptGoesOnBesideTheTreesOfOthers) {
  EngineHarness harness({}, {.max_batch_rows = 16});
  std::vector<Client> clients = OpenSessions(harness, 2);
  Passes passes;
  Watch(harness, passes);
  const Client lengthy = {.id = {2, 1}, .text = Text(60, 6)};
  const auto slow = harness.Send(lengthy.Request());
  int shared = 0;
  while (!slow->value) {
    std::vector<std::shared_ptr<Reply>> replies;
    for (const Client& client : clients) {
      replies.push_back(
          harness.Send(client.Request(Chain(client.text.back(), 4))));
    }
    // The prompt may have a pass of its own before the trees are there.
    const size_t before = passes.size();
    while (!replies[1]->value) ASSERT_TRUE(harness.executor->RunOne());
    EXPECT_LE(passes.size(), before + 2);
    shared += passes.back().size() == 3;
    for (size_t i = 0; i < 2; ++i) {
      ExpectGoesOn(harness, *replies[i], clients[i]);
    }
  }
  EXPECT_TRUE(slow->value->ok());
  EXPECT_GE(shared, 2);
  for (const auto& pass : passes) {
    EXPECT_LE(std::accumulate(pass.begin(), pass.end(), int64_t{0}), 16);
  }
}

// A tree that waits makes them as short as passes of trees.
TEST(VerifyEngineBatch, PromptsAloneHaveLongerPasses) {
  EngineHarness harness({.max_rows = 16, .max_chain_rows = 40},
                        {.max_batch_rows = 16, .max_prompt_rows = 40});
  std::vector<Client> clients = OpenSessions(harness, 1);
  Passes passes;
  Watch(harness, passes);
  const Client alone = {.id = {2, 1}, .text = Text(100, 6)};
  EXPECT_TRUE(harness.Ask(alone.Request(Chain(alone.text.back(), 8))).ok());
  EXPECT_EQ(passes, (Passes{{40}, {40}, {19}, {9}}));

  passes.clear();
  const Client lengthy = {.id = {2, 2}, .text = Text(100, 7)};
  const auto slow = harness.Send(lengthy.Request());
  const auto quick =
      harness.Send(clients[0].Request(Chain(clients[0].text.back(), 3)));
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(slow->value->ok() && quick->value->ok());
  EXPECT_EQ(passes, (Passes{{4, 12}, {40}, {40}, {8}}));
}

// A session that is about to come back would wait for a long pass.
TEST(VerifyEngineBatch, PromptsHaveLongerPassesOnlyIfNoTreeIsExpected) {
  VerifyEngine::Options options =
      WithCosts({{1, Milliseconds(10)}, {40, Milliseconds(20)}});
  options.max_batch_rows = 16;
  options.max_prompt_rows = 40;
  EngineHarness harness({.max_rows = 16, .max_chain_rows = 40}, options);
  std::vector<Client> clients = OpenSessions(harness, 1);
  Passes passes;
  Watch(harness, passes, Milliseconds(10));
  for (int round = 0; round < 20; ++round) {
    harness.executor->AdvanceBy(Milliseconds(1));
    clients[0].Commit(*harness.Ask(clients[0].Request()));
  }
  const auto first_pass_of_prompt = [&](uint64_t number) {
    passes.clear();
    const Client client = {.id = {2, number}, .text = Text(100, 6)};
    EXPECT_TRUE(harness.Ask(client.Request()).ok());
    harness.engine->EndSequence(client.id);
    return passes[0];
  };
  EXPECT_THAT(first_pass_of_prompt(1), ElementsAre(16));
  harness.executor->AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(first_pass_of_prompt(2), ElementsAre(40));
}

TEST(VerifyEngineBatch, TreesInPlentyDoNotStarveAPromptNorThePromptThem) {
  EngineHarness harness({.max_context = 400, .pool_tokens = 4000},
                        {.max_batch_rows = 8});
  std::vector<Client> clients = OpenSessions(harness, 6);
  std::vector<std::shared_ptr<Reply>> replies(6);
  std::map<size_t, int64_t> waited;
  const Client lengthy = {.id = {2, 1}, .text = Text(100, 6)};
  const auto slow = harness.Send(lengthy.Request());
  Passes passes;
  Watch(harness, passes);
  while (!slow->value) {
    for (size_t i = 0; i < clients.size(); ++i) {
      if (replies[i] == nullptr) {
        replies[i] =
            harness.Send(clients[i].Request(Chain(clients[i].text.back(), 3)));
        waited[i] = static_cast<int64_t>(passes.size());
      }
    }
    const size_t before = passes.size();
    while (passes.size() == before) ASSERT_TRUE(harness.executor->RunOne());
    for (size_t i = 0; i < clients.size(); ++i) {
      if (!replies[i]->value) continue;
      EXPECT_LE(static_cast<int64_t>(passes.size()) - waited[i], 7);
      clients[i].Commit(**replies[i]->value);
      replies[i] = nullptr;
    }
  }
  EXPECT_LE(passes.size(), 100u / 2);  // a quarter of each pass
}

TEST(VerifyEngineBatch, LongPromptsTakeTurns) {
  EngineHarness harness({.max_context = 400, .pool_tokens = 4000},
                        {.max_batch_rows = 8});
  Passes passes;
  Watch(harness, passes);
  const auto send = [&harness](uint64_t number, size_t length) {
    return harness.Send(
        Client{.id = {1, number}, .text = Text(length, 6)}.Request());
  };
  const auto longest = send(1, 81);  // 10 passes and its root's
  const auto other = send(2, 17);    // 2 and its root's
  const auto shortest = send(3, 8);  // 1
  const auto passes_until = [&](const std::shared_ptr<Reply>& reply) {
    while (!reply->value) EXPECT_TRUE(harness.executor->RunOne());
    return passes.size();
  };
  EXPECT_EQ(passes_until(shortest), 3u);
  EXPECT_LE(passes_until(other), 6u);
  EXPECT_GE(passes_until(longest), 12u);
}

TEST(VerifyEngineBatch, AFailedPassIsRepeatedForEachAloneAndHitsOnlyItsCause) {
  EngineHarness harness({.max_rows = 64});
  std::vector<Client> clients = OpenSessions(harness, 3);
  harness.model->set_pass_hook([](absl::Span<const SequenceRows> batch) {
    for (const SequenceRows& rows : batch) {
      if (rows.tokens.size() == 3) return absl::UnknownError("bad row");
    }
    return absl::OkStatus();
  });
  std::vector<std::shared_ptr<Reply>> replies;
  for (size_t i = 0; i < 3; ++i) {
    replies.push_back(harness.Send(
        clients[i].Request(Chain(clients[i].text.back(), i == 1 ? 2 : 1))));
  }
  harness.executor->RunUntilIdle();
  EXPECT_EQ(replies[1]->value->status(),
            absl::InternalError("target model: bad row"));
  for (size_t i : {0, 2}) {
    ExpectGoesOn(harness, *replies[i], clients[i]);
  }
  EXPECT_TRUE(harness.Ask(clients[1].Request()).ok());
}

TEST(VerifyEngineBatch, LogitsThatAreNoNumbersHitOnlyTheirSession) {
  EngineHarness harness;
  std::vector<Client> clients = OpenSessions(harness, 3);
  int row = 0;
  harness.model->set_spoil([&row](std::vector<float>& logits) {
    if (row++ == 1) logits[17] = std::nanf("");
  });
  std::vector<std::shared_ptr<Reply>> replies;
  for (const Client& client : clients) {
    replies.push_back(harness.Send(client.Request()));
  }
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(replies[0]->value->ok());
  EXPECT_EQ(replies[1]->value->status(),
            absl::InternalError("target model: after node 0: logit of token "
                                "17 is nan"));
  EXPECT_TRUE(replies[2]->value->ok());
}

TEST(VerifyEngineBatch, LateAndEndedRequestsTakeNoRows) {
  EngineHarness harness;
  std::vector<Client> clients = OpenSessions(harness, 3);
  Passes passes;
  Watch(harness, passes);
  const auto late = harness.Send(clients[0].Request(), harness.executor->Now());
  const auto ended = harness.Send(clients[1].Request());
  const auto good = harness.Send(clients[2].Request());
  harness.engine->EndSequence(clients[1].id);
  harness.executor->RunUntilIdle();
  EXPECT_EQ(late->value->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ended->value->status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(good->value->ok());
  EXPECT_THAT(passes, ElementsAre(ElementsAre(1)));
}

TEST(VerifyEngineBatch, EveryoneInAPassIsChargedAllOfIt) {
  EngineHarness harness({}, {.max_batch_rows = 40});
  std::vector<Client> clients = OpenSessions(harness, 1);
  Passes passes;
  Watch(harness, passes, Milliseconds(24));
  const Client fresh = {.id = {2, 1}, .text = Text(10, 6)};    // 9 + 3 rows
  const Client lengthy = {.id = {2, 2}, .text = Text(50, 6)};  // 49 + 1 rows
  const auto tree = harness.Send(clients[0].Request());
  const auto both = harness.Send(fresh.Request(Chain(6, 2)));
  const auto two_passes = harness.Send(lengthy.Request());
  harness.executor->RunUntilIdle();
  EXPECT_THAT(passes, ElementsAre(ElementsAre(1, 12, 27), ElementsAre(23)));

  const VerifyTimings& alone = (*tree->value)->timings;
  EXPECT_EQ(alone.forward, Milliseconds(24));
  EXPECT_EQ(alone.total(), Milliseconds(24));
  const VerifyTimings& split = (*both->value)->timings;
  EXPECT_EQ(split.prefill, Milliseconds(18));  // 9 rows of 12
  EXPECT_EQ(split.forward, Milliseconds(6));
  EXPECT_EQ(split.total(), Milliseconds(24));
  const VerifyTimings& later = (*two_passes->value)->timings;
  EXPECT_EQ(later.total(), Milliseconds(48));
  EXPECT_EQ(later.queue, absl::ZeroDuration());
}

TEST(VerifyEngineBatch, WaitingForAPassIsQueueTime) {
  EngineHarness harness({}, {.max_batch_rows = 4});
  std::vector<Client> clients = OpenSessions(harness, 2);
  Passes passes;
  Watch(harness, passes, Milliseconds(5));
  const auto first =
      harness.Send(clients[0].Request(Chain(clients[0].text.back(), 3)));
  const auto second =
      harness.Send(clients[1].Request(Chain(clients[1].text.back(), 3)));
  harness.executor->RunUntilIdle();
  EXPECT_EQ((*first->value)->timings.queue, absl::ZeroDuration());
  EXPECT_EQ((*second->value)->timings.queue, Milliseconds(5));
  EXPECT_EQ((*second->value)->timings.total(), Milliseconds(10));
}

TEST(VerifyEngineBatch, PassesOfTreesKeepTheCostsCurrent) {
  EngineHarness harness(
      {}, WithCosts({{1, Milliseconds(4)}, {8, Milliseconds(8)}}));
  std::vector<Client> clients = OpenSessions(harness, 2);
  Passes passes;
  Watch(harness, passes, Milliseconds(12));
  for (int round = 0; round < 150; ++round) {
    std::vector<std::shared_ptr<Reply>> replies;
    for (const Client& client : clients) {
      replies.push_back(
          harness.Send(client.Request(Chain(client.text.back(), 3))));
    }
    harness.executor->RunUntilIdle();
    for (size_t i = 0; i < 2; ++i) {
      const PassCosts& told = (*replies[i]->value)->pass_costs;
      ASSERT_EQ(told.size(), 2u);
      EXPECT_EQ(told[1].time, harness.engine->info().pass_costs[1].time);
      clients[i].Commit(**replies[i]->value);
    }
  }
  EXPECT_THAT(passes, Contains(ElementsAre(4, 4)).Times(150));
  EXPECT_LE(passes.size(), 150 * 17 / 16) << "measured beside the sessions";
  EXPECT_NEAR(
      absl::ToDoubleMilliseconds(harness.engine->info().pass_costs[1].time), 12,
      0.1);
}

TEST(VerifyEngineBatch, AtRestItFindsOutWhatRowsCost) {
  EngineHarness harness(
      {}, WithCosts({{1, Milliseconds(400)}, {8, Milliseconds(1)}}));
  OpenSessions(harness, 2);
  const KvUsage before = harness.model->kv_usage();
  Passes passes;
  harness.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    EXPECT_EQ(batch.size(), 1u);
    passes.push_back({static_cast<int64_t>(batch[0].tokens.size())});
    harness.executor->MoveClock(Milliseconds(10 * passes.back()[0]));
    return absl::OkStatus();
  });
  harness.executor->AdvanceBy(absl::Seconds(60));
  const PassCosts costs = harness.engine->info().pass_costs;
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs[0].time), 10, 2);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs[1].time), 80, 16);
  EXPECT_EQ(harness.model->num_sequences(), 2);
  EXPECT_EQ(harness.model->kv_usage().used_tokens, before.used_tokens);
  // What is known is left alone.
  const size_t needed = passes.size();
  harness.executor->AdvanceBy(absl::Seconds(600));
  EXPECT_EQ(passes.size(), needed);
}

// Each sends its next request 1 ms after its answer. Without waiting they would
// always just miss each other: a request that comes during a pass would run
// alone after it.
TEST(VerifyEngineBatch, WaitsForASessionThatIsAboutToCome) {
  EngineHarness harness(
      {}, WithCosts({{1, Milliseconds(10)}, {32, Milliseconds(12)}}));
  std::vector<Client> clients = OpenSessions(harness, 2);
  std::vector<absl::Time> comes = {harness.executor->Now(),
                                   harness.executor->Now() + Milliseconds(5)};
  std::vector<std::shared_ptr<Reply>> replies(2);
  const auto send_due = [&] {
    for (size_t i = 0; i < 2; ++i) {
      if (replies[i] || comes[i] > harness.executor->Now()) continue;
      replies[i] = harness.Send(clients[i].Request());
    }
  };
  Passes passes;
  harness.model->set_pass_hook([&](absl::Span<const SequenceRows> batch) {
    passes.push_back(std::vector<int64_t>(batch.size(), 1));
    for (int ms = 0; ms < 10; ++ms) {
      harness.executor->MoveClock(Milliseconds(1));
      send_due();
    }
    return absl::OkStatus();
  });
  for (int step = 0; step < 300; ++step) {
    send_due();
    harness.executor->AdvanceBy(Milliseconds(1));
    for (size_t i = 0; i < 2; ++i) {
      if (!replies[i] || !replies[i]->value) continue;
      clients[i].Commit(**replies[i]->value);
      replies[i] = nullptr;
      comes[i] = harness.executor->Now() + Milliseconds(1);
    }
  }
  ASSERT_GT(passes.size(), 40u);
  passes.erase(passes.begin(), passes.begin() + 20);
  EXPECT_THAT(passes,
              Contains(ElementsAre(1, 1)).Times(Ge(passes.size() * 8 / 10)));
}

TEST(VerifyEngineBatch, PassesWithPromptsSayNothingOfTheCostOfTrees) {
  EngineHarness harness({}, WithCosts({{1, Milliseconds(4)}}));
  Passes passes;
  Watch(harness, passes, Milliseconds(12));
  EXPECT_TRUE(
      harness.Ask(Client{.id = {1, 1}, .text = kPrompt}.Request()).ok());
  EXPECT_EQ(harness.engine->info().pass_costs[0].time, Milliseconds(4));
}

TEST(VerifyEngineBatch, ExportsTheSizeOfPassesAndWhatRowsCost) {
  EngineHarness harness(
      {}, WithCosts({{1, Milliseconds(4)}, {8, Milliseconds(8)}}));
  std::vector<Client> clients = OpenSessions(harness, 2);
  for (const Client& client : clients) {
    harness.Send(client.Request(Chain(client.text.back(), 3)));
  }
  harness.executor->RunUntilIdle();
  std::map<std::string, double> values;
  for (const auto& family : harness.metrics.Collect()) {
    for (const auto& metric : family.metric) {
      std::string labels;
      for (const auto& label : metric.label) labels += " " + label.value;
      values[family.name + labels] =
          family.type == prometheus::MetricType::Histogram
              ? metric.histogram.sample_sum
              : metric.gauge.value;
    }
  }
  EXPECT_EQ(values.at("espalier_verify_batch_size tiny"), 1 + 1 + 2);
  EXPECT_EQ(values.at("espalier_verify_batch_tokens tiny"), 11 + 11 + 8);
  EXPECT_EQ(values.at("espalier_verifier_forward_seconds tiny 1"), 0.004);
  EXPECT_EQ(values.at("espalier_verifier_forward_seconds tiny 8"), 0.008);
}

}  // namespace
}  // namespace espalier::verifier
