// How long a round waits for its drafters. The rest of DraftFanout is tested
// through whole coordinators, as in drafter_faults_test.
#include "coordinator/peers/draft_fanout.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/metrics/coordinator_metrics.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_endpoints.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/toy_target.h"

namespace espalier::coordinator {
namespace {

using absl::Milliseconds;

class DraftFanoutTest : public ::testing::Test {
 protected:
  static constexpr int kDrafters = 3;
  static constexpr absl::Duration kTimeout = Milliseconds(50);

  DraftFanoutTest() {
    for (int i = 0; i < kDrafters; ++i) {
      endpoints_.push_back(std::make_unique<FakeDraftEndpoint>(
          &executor_,
          [this](const std::vector<TokenId>& text, const DraftBudget& budget) {
            return target_.PerfectChain(text, budget.max_depth);
          }));
      endpoints_[i]->Behave({.delay = kHeld});
      const DrafterMetrics& metrics = metrics_.drafter(i);
      peers_.emplace_back(new DrafterPeer{.name = std::to_string(i),
                                          .endpoint = endpoints_[i].get(),
                                          .index = i,
                                          .info = [] { return std::nullopt; },
                                          .metrics = &metrics,
                                          .health = DrafterHealth(3, metrics)});
    }
    fanout_.emplace(&scope_,
                    std::vector<DrafterPeer*>{peers_[0].get(), peers_[1].get(),
                                              peers_[2].get()},
                    ToyTarget().vocab_size, &features_);
  }

  // Returns how long a round with these calls waits.
  absl::Duration WaitFor(std::vector<absl::Duration> patience) {
    std::vector<DraftCall> calls;
    for (const absl::Duration one : patience) {
      calls.push_back({.patience = one});
    }
    const absl::Time began = executor_.Now();
    std::optional<absl::Time> ended;
    fanout_->Collect(session_, ++round_, {.max_nodes = 4, .max_depth = 4},
                     calls, began + kTimeout,
                     [&](DraftFanout::Drafts) { ended = executor_.Now(); });
    executor_.AdvanceBy(absl::Seconds(1));
    EXPECT_TRUE(ended);
    return ended.value_or(began) - began;
  }

  FakeExecutor executor_;
  ExecutorScope scope_{&executor_};
  const ToyTarget target_ = {};
  prometheus::Registry registry_;
  CoordinatorMetrics metrics_{registry_, "toy", {"0", "1", "2"}};
  std::vector<std::unique_ptr<FakeDraftEndpoint>> endpoints_;
  std::vector<std::unique_ptr<DrafterPeer>> peers_;
  FeatureBudget budget_{{}, metrics_.features};
  FeatureLog features_{ToyTarget::kShape, &budget_};
  Session session_{{}, {.prompt = {3, 1, 4}, .max_tokens = 100}};
  uint64_t round_ = 0;
  std::optional<DraftFanout> fanout_;
};

TEST_F(DraftFanoutTest, WaitsForAsLongAsTheAnswersTogetherMayBeWorth) {
  EXPECT_EQ(WaitFor({Milliseconds(5), Milliseconds(10), Milliseconds(2)}),
            Milliseconds(17));
}

TEST_F(DraftFanoutTest, WaitsUntilTheDeadlineAtMost) {
  EXPECT_EQ(
      WaitFor({Milliseconds(5), absl::InfiniteDuration(), Milliseconds(2)}),
      kTimeout);
}

// From then on, for what the others may be worth.
TEST_F(DraftFanoutTest, AnAnswerEndsTheWaitForItsDrafter) {
  endpoints_[1]->Behave({.delay = Milliseconds(4)});
  EXPECT_EQ(WaitFor({Milliseconds(5), Milliseconds(30), Milliseconds(2)}),
            Milliseconds(4 + 5 + 2));
}

TEST_F(DraftFanoutTest, WhoStillOwesAnAnswerIsNotWaitedFor) {
  EXPECT_EQ(WaitFor({Milliseconds(1), Milliseconds(1), Milliseconds(1)}),
            Milliseconds(3));
  EXPECT_EQ(WaitFor({Milliseconds(1), Milliseconds(1), Milliseconds(1)}),
            absl::ZeroDuration());
}

}  // namespace
}  // namespace espalier::coordinator
