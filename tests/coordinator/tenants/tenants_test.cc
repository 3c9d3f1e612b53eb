// Tenants that share a coordinator.

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/speculation/request_errors.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

class TenantsTest : public ::testing::Test {
 protected:
  // All rounds take 10 ms, a token each.
  void Serve(Coordinator::Options options,
             const std::vector<TenantTerms>& tenants) {
    cluster_.emplace(0, std::move(options));
    cluster_->verifier.Behave({.delay = absl::Milliseconds(10)});
    cluster_->coordinator->tenants().Set(tenants);
  }
  Seen& Start(const std::string& tenant, int64_t max_tokens = 10,
              std::optional<TokenId> stop = std::nullopt) {
    GenerationRequest request = ToyCluster::Request(max_tokens);
    if (stop) request.stop_token_ids = {*stop};
    request.request_id = absl::StrCat("r", seen_.size());
    request.tenant = tenant;
    seen_.emplace_back();
    cluster_->Start(std::move(request), &seen_.back());
    cluster_->executor.AdvanceBy(absl::ZeroDuration());
    return seen_.back();
  }
  static int Finished(const std::vector<Seen*>& all) {
    int count = 0;
    for (const Seen* seen : all) count += seen->num_finishes;
    return count;
  }

  std::deque<Seen> seen_;
  std::optional<ToyCluster> cluster_;
};

TEST_F(TenantsTest, AFloodDelaysOthersByARequestAtMost) {
  Serve({.max_sessions = 1, .max_queued = 60}, {{.name = "a"}, {.name = "b"}});
  std::vector<Seen*> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(&Start("a"));
  const Seen& other = Start("b");
  cluster_->executor.AdvanceBy(absl::Milliseconds(10 * 10 * 2));
  EXPECT_EQ(other.num_finishes, 1);
  EXPECT_TRUE(other.status.ok()) << other.status;
  EXPECT_EQ(Finished(flood), 1);
}

TEST_F(TenantsTest, TokensAreSharedByWeight) {
  Serve({.max_sessions = 1, .max_queued = 400},
        {{.name = "a", .weight = 3}, {.name = "b"}});
  std::vector<Seen*> a, b;
  for (int i = 0; i < 60; ++i) {
    a.push_back(&Start("a", 10));
    b.push_back(&Start("b", 10));
  }
  cluster_->executor.AdvanceBy(absl::Milliseconds(10) * 10 * 40);
  EXPECT_NEAR(Finished(a), 30, 1);
  EXPECT_NEAR(Finished(b), 10, 1);
}

TEST_F(TenantsTest, TheVerifierIsToldWhomItRunsFor) {
  Serve({}, {{.name = "a", .weight = 3}});
  Start("a");
  Start("stranger");
  cluster_->executor.AdvanceBy(absl::Seconds(1));
  double weight_of_others = 0;
  for (const VerifyRequest& r : cluster_->verifier.requests()) {
    if (r.update.base_length > 0) {
      EXPECT_EQ(r.share.tenant, "");
    } else if (r.share.tenant == "a") {
      EXPECT_EQ(r.share.weight, 3);
    } else {
      EXPECT_EQ(r.share.tenant, "other");
      weight_of_others = r.share.weight;
    }
  }
  EXPECT_EQ(weight_of_others, 1);
}

// Two tenants with the same weight: one asks for ten times as much each time.
TEST_F(TenantsTest, LongRequestsCountAsWhatTheyAre) {
  Serve({.max_sessions = 1, .max_queued = 400}, {{.name = "a"}, {.name = "b"}});
  std::vector<Seen*> a, b;
  for (int i = 0; i < 60; ++i) {
    a.push_back(&Start("a", 95));  // with a prompt of 5
    b.push_back(&Start("b", 5));
  }
  cluster_->executor.AdvanceBy(absl::Milliseconds(10) * 95 * 5);
  EXPECT_NEAR(Finished(b), 10 * Finished(a), 10);
  EXPECT_GE(Finished(a), 3);
}

TEST_F(TenantsTest, WhatIsNotUsedIsNotCharged) {
  Serve({.max_sessions = 1, .max_queued = 400}, {{.name = "a"}, {.name = "b"}});
  const auto text = cluster_->PlainText(ToyCluster::Request(4));
  std::vector<Seen*> a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back(&Start("a", 900, /*stop=*/text.back()));
    b.push_back(&Start("b", 4));
  }
  cluster_->executor.AdvanceBy(absl::Milliseconds(10) * 4 * 20);
  EXPECT_NEAR(Finished(a), Finished(b), 2);
  EXPECT_GE(Finished(a), 9);
}

TEST_F(TenantsTest, APartOfTheQueueIsNeverFullOfOthersRequests) {
  Serve({.max_sessions = 1, .max_queued = 9},
        {{.name = "a"}, {.name = "b"}});  // and "other": three places each
  std::vector<Seen*> flood;
  for (int i = 0; i < 10; ++i) flood.push_back(&Start("a"));
  EXPECT_EQ(Finished(flood), 10 - 1 - 3);
  EXPECT_EQ(ReasonOf(flood.back()->status), "QUEUE_FULL");
  for (const char* tenant : {"b", "b", "b", "x", "y", "z"}) {
    EXPECT_EQ(Start(tenant).num_finishes, 0) << tenant;
  }
  EXPECT_EQ(Start("b").num_finishes, 1);
  EXPECT_EQ(Start("w").num_finishes, 1);
  EXPECT_TRUE(cluster_->coordinator->CheckOpen("b", 0).message().find("full") !=
              std::string::npos);
  cluster_->executor.AdvanceBy(absl::Hours(1));
  cluster_->ExpectNothingOpen();
  EXPECT_TRUE(cluster_->coordinator->CheckOpen("b", 0).ok());
}

TEST_F(TenantsTest, AUsedUpQuotaRefusesBeforeAnythingIsSpent) {
  Serve({}, {{.name = "a", .tokens_per_minute = 15}});
  EXPECT_TRUE(cluster_->coordinator->CheckOpen("a", 0).ok());
  EXPECT_EQ(Start("a").num_finishes, 0);
  cluster_->executor.AdvanceBy(absl::Seconds(1));
  const absl::Status refused = cluster_->coordinator->CheckOpen("a", 0);
  EXPECT_EQ(ReasonOf(refused), "QUOTA_EXCEEDED");
  EXPECT_GT(*RetryAfter(refused), absl::Seconds(2));
  EXPECT_TRUE(cluster_->coordinator->CheckOpen("other", 0).ok());
  cluster_->executor.AdvanceBy(*RetryAfter(refused));
  EXPECT_TRUE(cluster_->coordinator->CheckOpen("a", 0).ok());
}

TEST_F(TenantsTest, TextsAreThoseOfAServerWithoutTenants) {
  Serve({.max_sessions = 2}, {{.name = "a"}, {.name = "b", .weight = 5}});
  const Seen& one = Start("a", 20);
  const Seen& two = Start("b", 20);
  cluster_->executor.AdvanceBy(absl::Hours(1));
  const auto text = cluster_->PlainText(ToyCluster::Request(20));
  EXPECT_EQ(one.tokens, text);
  EXPECT_EQ(two.tokens, text);
}

}  // namespace
}  // namespace espalier::coordinator
