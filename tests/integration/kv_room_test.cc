// A K/V pool that is too small for all requests: all make progress, none fails,
// and every text is the same as alone.

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/default_model.h"

namespace espalier::testing {
namespace {

// K/V of another type would be half as large.
constexpr char kFloats[] = "engine.compute_type=float32";

std::vector<Generated> GenerateAll(
    Cluster& cluster, const std::vector<v1::GenerateRequest>& requests) {
  std::vector<Generated> all(requests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back(
        [&, i] { all[i] = Generate(cluster.stub(), requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

void ExpectTextsAreThoseOfRunningAlone(
    Cluster& cluster, const std::vector<v1::GenerateRequest>& requests,
    const std::vector<Generated>& together) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated& one = together[i];
    EXPECT_TRUE(one.status.ok()) << i << ": " << one.status.error_message();
    EXPECT_EQ(one.summary.finish_reason(), v1::FINISH_REASON_LENGTH) << i;
    EXPECT_EQ(one.token_ids.size(), requests[i].max_tokens()) << i;
    const Generated alone = Generate(cluster.stub(), Plain(requests[i]));
    EXPECT_EQ(one.token_ids, alone.token_ids) << i;
  }
}

// Returns the value of the verifier's metric whose line begins with `name`.
double Metric(const Cluster& cluster, const std::string& name) {
  const std::string text = cluster.Metrics("verifier");
  const size_t line = text.find("\n" + name);
  if (line == std::string::npos) return -1;
  const size_t value = text.find(' ', line + 1) + 1;
  double number = -1;
  EXPECT_TRUE(absl::SimpleAtod(
      text.substr(value, text.find('\n', value) - value), &number));
  return number;
}

// Decodes 12 texts of up to 250 tokens in a pool of 1 MiB.
void ExpectLongPromptsGetOn(const std::string& kv_cache_type, double capacity) {
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = LookupAndBigram(),
                   .coordinator_sets = {"core.max_running_requests=12"},
                   .verifier_sets = {"engine.kv_cache_mib=1", kFloats,
                                     "engine.kv_cache_type=" + kv_cache_type}});
  cluster.AwaitReady();
  ASSERT_EQ(Metric(cluster, "espalier_kv_tokens_capacity"), capacity);
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) {
    v1::GenerateRequest request =
        CharRequest(i % 2 ? 1.0f : 0.0f, /*seed=*/i, /*max_tokens=*/70);
    std::string prompt;
    while (prompt.size() < 170) {
      absl::StrAppend(&prompt, "What, ho! the king and queen ", i, "\n");
    }
    for (char& c : prompt) {
      if ('0' <= c && c <= '9') c = static_cast<char>('a' + (c - '0'));
    }
    request.set_prompt(prompt.substr(0, 170 + i % 8));
    requests.push_back(std::move(request));
  }
  const std::vector<Generated> together = GenerateAll(cluster, requests);
  ExpectTextsAreThoseOfRunningAlone(cluster, requests, together);
  cluster.AwaitMetric("verifier", "espalier_kv_tokens_used 0");
  cluster.AwaitMetric("verifier", "espalier_kv_sessions_waiting 0");
}

// 1024 tokens have room, which all texts together outgrow.
TEST(KvRoom, LongPromptsInPlentyAllGetOn) {
  ExpectLongPromptsGetOn("float32", 1024);
}

TEST(KvRoom, Int8HoldsMoreAndIsAsLossless) {
  ExpectLongPromptsGetOn("int8", 2720);
}

// One tenant's 24 requests are many times the pool and wait for each other.
// Another tenant's request does not wait for them, since it has a part of the
// pool, and all texts are as alone.
TEST(KvRoom, ATenantIsNotKeptOutByAnother) {
  const std::string tenants = ::testing::TempDir() + "/tenants.textproto";
  std::ofstream(tenants) << "tenants { name: 'many' } tenants { name: 'one' }";
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = LookupAndBigram(),
                   .coordinator_sets = {"core.max_running_requests=25",
                                        "core.tenants_file=" + tenants,
                                        "core.tenant_metadata=true"},
                   .verifier_sets = {"engine.kv_cache_mib=1", kFloats,
                                     "engine.kv_cache_type=float32"}});
  cluster.AwaitReady();

  std::vector<v1::GenerateRequest> many;
  for (int i = 0; i < 24; ++i) {
    many.push_back(CharRequest(1.0f, /*seed=*/i, /*max_tokens=*/200));
  }
  std::vector<Generated> of_many(many.size());
  std::atomic<int> num_long = 0;
  std::atomic<int> num_ended = 0;
  Notification begun;  // one of them is long
  std::vector<std::thread> threads;
  for (size_t i = 0; i < many.size(); ++i) {
    threads.emplace_back([&, i] {
      size_t tokens = 0;
      of_many[i] = Generate(
          cluster.stub(), many[i],
          [&](const v1::GenerateResponse& message, grpc::ClientContext&) {
            const size_t before = tokens;
            tokens += message.token_ids_size();
            // The threads' order is not that of the requests at the verifier.
            if (before < 50 && tokens >= 50 && num_long++ == 0) begun.Notify();
          },
          "many");
      ++num_ended;
    });
  }
  begun.Wait();
  const v1::GenerateRequest one = CharRequest(1.0f, /*seed=*/99,
                                              /*max_tokens=*/20);
  const Generated of_one = Generate(cluster.stub(), one, nullptr, "one");
  // By age it would come when at most four of them are left.
  EXPECT_LT(num_ended, 12);
  for (std::thread& thread : threads) thread.join();
  ExpectTextsAreThoseOfRunningAlone(cluster, many, of_many);
  ExpectTextsAreThoseOfRunningAlone(cluster, {one}, {of_one});
}

class DefaultModelRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDefaultModel()) {
      GTEST_SKIP() << "no default model: run deploy/setup.sh";
    }
  }

  static Cluster::Options With(int kv_cache_mib) {
    return {.model = DefaultModelFolder(),
            .drafters = {{.name = "lookup", .type = "prompt_lookup"}},
            .verifier_sets = {
                absl::StrCat("engine.kv_cache_mib=", kv_cache_mib), kFloats}};
  }

  static v1::GenerateRequest Request(int words, uint32_t max_tokens) {
    v1::GenerateRequest request;
    std::string prompt;
    for (int i = 0; i < words; ++i) absl::StrAppend(&prompt, " glacier");
    request.set_prompt(prompt);
    request.set_max_tokens(max_tokens);
    request.set_ignore_eos(true);
    return request;
  }
};

// Two that may begin together outgrow the pool. Each fills nearly all of it, so
// that they do even if one is several times as fast.
TEST_F(DefaultModelRoom, NightlyTheYoungestGivesWayAndComesBack) {
  Cluster::Options options = With(/*kv_cache_mib=*/16);  // 704 tokens
  options.verifier_sets.pop_back();                      // as fast as it can
  Cluster cluster(options);
  cluster.AwaitReady();
  std::vector<v1::GenerateRequest> requests = {Request(12, 600),
                                               Request(16, 600)};
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].set_temperature(1);
    requests[i].set_seed(7 + i);
  }
  const std::vector<Generated> together = GenerateAll(cluster, requests);
  EXPECT_GE(Metric(cluster, "espalier_kv_preemptions_total"), 1);
  ExpectTextsAreThoseOfRunningAlone(cluster, requests, together);
  cluster.AwaitMetric("verifier", "espalier_kv_tokens_used 0");
}

TEST_F(DefaultModelRoom, AloneItEndsWithThePoolAndWhatNeverFitsIsRefused) {
  Cluster cluster(With(/*kv_cache_mib=*/4));  // 64 tokens
  cluster.AwaitReady();
  v1::GetModelInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(cluster.stub().GetModelInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.max_context(), 64);

  const Generated filled = Generate(cluster.stub(), Request(20, 500));
  EXPECT_TRUE(filled.status.ok()) << filled.status.error_message();
  EXPECT_EQ(filled.summary.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(filled.summary.usage().prompt_tokens() +
                filled.summary.usage().completion_tokens(),
            64);

  const Generated refused = Generate(cluster.stub(), Request(200, 5));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(refused.status.error_message().find("at most 63 fit"),
            std::string::npos)
      << refused.status.error_message();
  EXPECT_EQ(refused.status.error_details().find("RetryInfo"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::testing
