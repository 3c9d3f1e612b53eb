// Requests that begin alike, through all services: what is cached is reported,
// and no text changes.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

v1::GenerateRequest LongRequest(uint64_t seed) {
  v1::GenerateRequest request = CharRequest(/*temperature=*/1, seed, 40);
  std::string prompt;
  while (prompt.size() < 180) absl::StrAppend(&prompt, "Now is the winter of ");
  request.set_prompt(prompt.substr(0, 180));
  return request;
}

Cluster::Options With(std::vector<std::string> verifier_sets) {
  return {.model = CharModelFolder(),
          .drafters = LookupAndBigram(),
          .verifier_sets = std::move(verifier_sets)};
}

TEST(SharedPrompt, ASecondRequestTakesItFromTheCache) {
  Cluster cluster(With({}));
  cluster.AwaitReady();
  const auto run = [&](const v1::GenerateRequest& request) {
    const Generated out = Generate(cluster.stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    return out;
  };
  const Generated first = run(LongRequest(1)), again = run(LongRequest(1));
  EXPECT_EQ(first.summary.usage().cached_tokens(), 0);
  EXPECT_EQ(again.summary.usage().cached_tokens(), 160);  // whole pages
  EXPECT_EQ(again.token_ids, first.token_ids);

  const Generated other = run(LongRequest(2));
  EXPECT_EQ(other.summary.usage().cached_tokens(), 160);
  const Generated plain = run(Plain(LongRequest(2)));
  EXPECT_EQ(plain.summary.usage().cached_tokens(), 0);
  EXPECT_EQ(other.token_ids, plain.token_ids);

  v1::GenerateRequest salted = LongRequest(1);
  salted.set_cache_salt("mine");
  EXPECT_EQ(run(salted).summary.usage().cached_tokens(), 0);
  EXPECT_EQ(run(salted).summary.usage().cached_tokens(), 160);
  cluster.AwaitMetric(
      "verifier",
      "espalier_prefix_cache_hits_total{model=\"nanogpt-char\"} 480");
  cluster.AwaitMetric("verifier", "espalier_kv_tokens_used 0");
}

TEST(SharedPrompt, OutputsOfOnePromptAtOnceHaveTheTextsOfRunningAlone) {
  Cluster cluster(With({}));
  cluster.AwaitReady();
  std::vector<Generated> together(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < together.size(); ++i) {
    threads.emplace_back([&, i] {
      together[i] = Generate(cluster.stub(), LongRequest(/*seed=*/i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(together[i].status.ok()) << together[i].status.error_message();
    EXPECT_EQ(together[i].token_ids,
              Generate(cluster.stub(), Plain(LongRequest(i))).token_ids);
  }
}

TEST(SharedPrompt, NothingIsCachedWhereThereIsNoRoomForIt) {
  Cluster cluster(With({"engine.prefix_cache_mib=0"}));
  cluster.AwaitReady();
  for (int i = 0; i < 2; ++i) {
    const Generated out = Generate(cluster.stub(), LongRequest(1));
    EXPECT_EQ(out.summary.usage().cached_tokens(), 0);
    EXPECT_EQ(out.summary.usage().prompt_tokens(), 180);
  }
}

}  // namespace
}  // namespace espalier::testing
