// The text that clients see does not depend on the drafters: real processes,
// real sockets, string equality.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

class LosslessTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::vector<DrafterSpec> drafters = LookupAndBigram();
    drafters.push_back({.name = "suffix",
                        .type = "suffix",
                        .options = {{"earlier_answers", "true"}},
                        .in_coordinator = true});
    drafters.push_back(
        {.name = "recycle", .type = "recycle", .in_coordinator = true});
    drafters.push_back({.name = "far-recycle", .type = "recycle"});
    cluster_ = new Cluster(
        {.model = CharModelFolder(), .drafters = std::move(drafters)});
    cluster_->AwaitReady();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  static Generated Run(const v1::GenerateRequest& request) {
    Generated out = Generate(cluster_->stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    return out;
  }

  static Cluster* cluster_;
};
Cluster* LosslessTest::cluster_ = nullptr;

TEST_F(LosslessTest, EveryDrafterAndTheirUnionGiveThePlainText) {
  for (float temperature : {0.0f, 0.7f, 1.0f}) {
    for (uint64_t seed : {1, 2, 3}) {
      const v1::GenerateRequest request = CharRequest(temperature, seed);
      const Generated plain = Run(Plain(request));
      ASSERT_EQ(plain.token_ids.size(), 160);
      for (const std::vector<std::string>& drafters :
           std::vector<std::vector<std::string>>{
               {"lookup"},
               {"bigram"},
               {"suffix"},
               {"recycle"},
               {"far-recycle"},
               {"lookup", "bigram"},
               {"lookup", "bigram", "suffix", "recycle", "far-recycle"}}) {
        v1::GenerateRequest drafted = request;
        for (const std::string& name : drafters) {
          drafted.mutable_speculation()->add_drafters(name);
        }
        const Generated out = Run(drafted);
        EXPECT_EQ(out.token_ids, plain.token_ids)
            << absl::StrJoin(drafters, " ") << " at temperature "
            << temperature;
        EXPECT_EQ(out.text, plain.text);
        EXPECT_GT(out.summary.spec_stats().num_draft_tokens(), 0);
      }
    }
  }
}

TEST_F(LosslessTest, FiltersNodeBudgetAndStrategyDoNotChangeTheText) {
  v1::GenerateRequest request = CharRequest(1.0f, 7);
  request.set_top_k(8);
  request.set_top_p(0.9f);
  const Generated plain = Run(Plain(request));
  v1::GenerateRequest adaptive = request;
  adaptive.clear_speculation();
  EXPECT_EQ(Run(adaptive).token_ids, plain.token_ids) << "nodes that pay";
  for (uint32_t nodes : {1, 3, 14, 64}) {
    for (const char* strategy : {"budgeted", "union", "single"}) {
      v1::GenerateRequest drafted = request;
      drafted.mutable_speculation()->set_max_nodes(nodes);
      drafted.mutable_speculation()->set_strategy(strategy);
      EXPECT_EQ(Run(drafted).token_ids, plain.token_ids)
          << nodes << " nodes, " << strategy;
    }
  }
}

// Each of them changes the text, and speculation does not change it again.
TEST_F(LosslessTest, SamplingOptionsGiveThePlainTextWithEveryDrafter) {
  using Change = std::function<void(v1::GenerateRequest&)>;
  const std::vector<std::pair<const char*, Change>> options = {
      {"min_p", [](auto& r) { r.set_min_p(0.5f); }},
      {"typical_p", [](auto& r) { r.set_typical_p(0.3f); }},
      {"repetition", [](auto& r) { r.set_repetition_penalty(1.6f); }},
      {"frequency", [](auto& r) { r.set_frequency_penalty(0.4f); }},
      {"presence", [](auto& r) { r.set_presence_penalty(1.5f); }},
      {"bias", [](auto& r) { (*r.mutable_logit_bias())[5] = 4.0f; }},
      {"bad word", [](auto& r) { r.add_bad_words("th"); }},
      {"all", [](auto& r) {
         r.set_min_p(0.01f);
         r.set_typical_p(0.95f);
         r.set_top_k(20);
         r.set_repetition_penalty(1.1f);
         r.set_frequency_penalty(0.1f);
         r.set_presence_penalty(0.2f);
         r.add_bad_words("the");
       }}};
  for (float temperature : {0.0f, 1.0f}) {
    const v1::GenerateRequest unchanged = CharRequest(temperature, 5);
    const Generated before = Run(Plain(unchanged));
    for (const auto& [name, change] : options) {
      SCOPED_TRACE(absl::StrCat(name, " at temperature ", temperature));
      v1::GenerateRequest request = unchanged;
      change(request);
      const Generated plain = Run(Plain(request));
      const bool only_filters =
          request.has_min_p() + request.has_typical_p() > 0 &&
          !request.has_repetition_penalty();
      if (temperature > 0 || !only_filters) {
        EXPECT_NE(plain.token_ids, before.token_ids);
      }
      for (const char* drafter :
           {"lookup", "bigram", "suffix", "recycle", ""}) {
        v1::GenerateRequest drafted = request;
        if (*drafter) drafted.mutable_speculation()->add_drafters(drafter);
        const Generated out = Run(drafted);
        EXPECT_EQ(out.token_ids, plain.token_ids) << drafter;
        EXPECT_GT(out.summary.spec_stats().num_draft_tokens(), 0);
      }
    }
  }
}

TEST_F(LosslessTest, BadWordsAreNotSaidAndMinTokensHoldStopsOff) {
  v1::GenerateRequest request = CharRequest(1.0f, 4);
  ASSERT_NE(Run(request).text.find("th"), std::string::npos);
  request.add_bad_words("th");
  EXPECT_EQ(Run(request).text.find("th"), std::string::npos);

  v1::GenerateRequest stopping = CharRequest(1.0f, 4);
  const Generated whole = Run(stopping);
  stopping.add_stop_token_ids(whole.token_ids[2]);
  EXPECT_LE(Run(stopping).token_ids.size(), 3u);
  stopping.set_min_tokens(40);
  const Generated out = Run(stopping);
  EXPECT_GT(out.token_ids.size(), 40u);
  EXPECT_EQ(Run(Plain(stopping)).token_ids, out.token_ids);
}

TEST_F(LosslessTest, StopStringsEndTheTextInsideABurst) {
  for (float temperature : {0.0f, 1.0f}) {
    const v1::GenerateRequest request = CharRequest(temperature, 6);
    const Generated whole = Run(request);
    for (size_t at = 3; at + 4 < 60; at += 7) {
      const std::string stop = whole.text.substr(at, 4);
      const size_t begin = whole.text.find(stop);
      for (bool include : {false, true}) {
        v1::GenerateRequest stopped = request;
        stopped.add_stop(stop);
        stopped.set_include_stop_str_in_output(include);
        for (const Generated& out : {Run(stopped), Run(Plain(stopped))}) {
          EXPECT_EQ(out.text,
                    whole.text.substr(0, begin + (include ? stop.size() : 0)));
          // A token is a character.
          EXPECT_EQ(out.token_ids.size(), begin + stop.size());
          EXPECT_EQ(out.summary.usage().completion_tokens(),
                    begin + stop.size());
          EXPECT_EQ(out.summary.finish_reason(), v1::FINISH_REASON_STOP);
          EXPECT_EQ(out.summary.matched_stop(), stop);
          EXPECT_FALSE(out.summary.has_matched_stop_token_id());
        }
      }
    }
  }
}

TEST_F(LosslessTest, SpeculationTakesFewerPasses) {
  const v1::GenerateRequest request = CharRequest(0.0f, 1);
  const Generated plain = Run(Plain(request));
  const Generated drafted = Run(request);
  EXPECT_EQ(plain.summary.spec_stats().num_spec_steps(), 160);
  EXPECT_DOUBLE_EQ(plain.summary.spec_stats().mean_acceptance_length(), 1.0);
  EXPECT_LT(drafted.summary.spec_stats().num_spec_steps(), 110);
}

TEST_F(LosslessTest, SampledTextDependsOnTheSeed) {
  EXPECT_NE(Run(CharRequest(1.0f, 1)).token_ids,
            Run(CharRequest(1.0f, 2)).token_ids);
}

TEST_F(LosslessTest, AnUnsetSeedIsReportedAndRepeatsTheText) {
  v1::GenerateRequest request = CharRequest(1.0f, 0);
  request.clear_seed();
  const Generated first = Run(request);
  request.set_seed(first.summary.seed());
  EXPECT_EQ(Run(request).token_ids, first.token_ids);
}

// Seed 002: depth 3, width 2 makes 2 + 4 + 8 = 14 candidates a pass.
TEST_F(LosslessTest, TheBigramDraftsTheCompleteTreeOfDepth3AndWidth2) {
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = {{.name = "bigram",
                                 .type = "ngram",
                                 .options = {{"table", CharBigramTable()},
                                             {"width", "2"}}}},
                   .coordinator_sets = {kWaitForDrafters}});
  cluster.AwaitReady();
  v1::GenerateRequest request = CharRequest(0.0f, 1, 100);
  request.mutable_speculation()->set_max_depth(3);
  request.mutable_speculation()->set_max_nodes(14);
  const Generated out = Generate(cluster.stub(), request);
  ASSERT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, Run(Plain(request)).token_ids);
  const v1::SpecStats& stats = out.summary.spec_stats();
  // The last rounds have fewer: no tree reaches beyond max_tokens.
  EXPECT_GE(stats.num_draft_tokens(), 14 * (stats.num_spec_steps() - 3));
  EXPECT_LE(stats.num_draft_tokens(), 14 * stats.num_spec_steps());
  EXPECT_GT(stats.mean_acceptance_length(), 1.2);
}

TEST_F(LosslessTest, ConcurrentSessionsSayWhatEachSaysAlone) {
  constexpr int kSessions = 8;
  std::vector<Generated> alone, together(kSessions);
  for (int i = 0; i < kSessions; ++i) {
    alone.push_back(Run(CharRequest(i % 2 ? 1.0f : 0.0f, i)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kSessions; ++i) {
    threads.emplace_back([&together, i] {
      together[i] =
          Generate(cluster_->stub(), CharRequest(i % 2 ? 1.0f : 0.0f, i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kSessions; ++i) {
    EXPECT_EQ(together[i].token_ids, alone[i].token_ids) << "session " << i;
  }
}

TEST_F(LosslessTest, StopTokensEndTheTextAndStayOutOfIt) {
  v1::GenerateRequest request = CharRequest(0.0f, 1);
  const Generated whole = Run(request);
  const uint32_t stop = whole.token_ids[20];
  request.add_stop_token_ids(stop);
  const Generated out = Run(request);
  EXPECT_EQ(out.summary.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(out.summary.matched_stop_token_id(), stop);
  ASSERT_FALSE(out.token_ids.empty());
  EXPECT_EQ(out.token_ids.back(), stop);
  EXPECT_EQ(out.token_ids, std::vector<uint32_t>(
                               whole.token_ids.begin(),
                               whole.token_ids.begin() + out.token_ids.size()));
  EXPECT_EQ(whole.text.rfind(out.text, 0), 0);
  EXPECT_EQ(Run(Plain(request)).token_ids, out.token_ids);
}

TEST_F(LosslessTest, UsageAddsUp) {
  const Generated out = Run(CharRequest(0.0f, 1, 50));
  EXPECT_EQ(out.summary.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(out.summary.usage().completion_tokens(), 50);
  EXPECT_EQ(out.summary.usage().total_tokens(),
            50 + out.summary.usage().prompt_tokens());
  EXPECT_EQ(out.token_ids.size(), 50);
  uint32_t steps = 0, accepted = 0;
  const v1::SpecStats& stats = out.summary.spec_stats();
  for (int j = 0; j < stats.acceptance_histogram_size(); ++j) {
    steps += stats.acceptance_histogram(j);
    accepted += j * stats.acceptance_histogram(j);
  }
  EXPECT_EQ(steps, stats.num_spec_steps());
  EXPECT_EQ(accepted, stats.num_accepted_draft_tokens());
}

}  // namespace
}  // namespace espalier::testing
