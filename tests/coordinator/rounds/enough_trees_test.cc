// Policies see when trees arrived, and may end the wait for others.
#include <memory>
#include <utility>
#include <vector>

#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr absl::Duration kSoon = absl::Milliseconds(5);
constexpr absl::Duration kLater = absl::Milliseconds(30);

GenerationRequest With(const char* strategy) {
  GenerationRequest request = ToyCluster::Request(/*max_tokens=*/2);
  request.speculation.strategy = strategy;
  return request;
}

// Returns the draft wait of a round, with drafters that take the given times.
// Also checks the text.
absl::Duration WaitOf(const char* strategy, absl::Duration first,
                      absl::Duration second) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = first});
  cluster.drafters[1]->Behave({.delay = second});
  const GenerationRequest request = With(strategy);
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.num_spec_steps, 1);
  EXPECT_EQ(seen.report.spec.drafters[1].timeouts, 0);
  EXPECT_GT(seen.report.spec.num_accepted_draft_tokens, 0);
  return seen.report.timing.draft_wait;
}

TEST(EnoughTreesTest, SingleWaitsForNobodyBehindTheFirst) {
  EXPECT_EQ(WaitOf("single", kSoon, kLater), kSoon);
  EXPECT_EQ(WaitOf("single", kLater, kSoon), kLater);
  EXPECT_EQ(WaitOf("union", kSoon, kLater), kLater);
}

// A tree that was reported in part comes again complete.
TEST(EnoughTreesTest, APartOfTheFirstTreeIsNotEnough) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = kSoon,
                               .part = FakeDraftEndpoint::FirstNodes(1),
                               .part_delay = kSoon / 2});
  cluster.drafters[1]->Behave({.delay = kLater});
  EXPECT_EQ(cluster.Run(With("single")).report.timing.draft_wait, kSoon);
}

// Records its input.
class ListeningPolicy final : public MergePolicy {
 public:
  explicit ListeningPolicy(std::vector<DraftedTree>* heard) : heard_(*heard) {}
  TokenTree Merge(const MergeInput& input) const override {
    heard_.assign(input.trees.begin(), input.trees.end());
    return TokenTree::RootOnly(input.root);
  }

 private:
  std::vector<DraftedTree>& heard_;
};

TEST(EnoughTreesTest, PoliciesHearWhenTreesCameAndWhetherTheyAreWhole) {
  std::vector<DraftedTree> heard;
  Registry<MergePolicy> policies("strategy");
  RegisterMergePolicies(policies);
  policies.Add("listening",
               [&] { return std::make_unique<ListeningPolicy>(&heard); });
  ToyCluster cluster(2, {.policies = &policies});
  cluster.drafters[0]->Behave({.delay = kSoon});
  cluster.drafters[1]->Behave({.delay = absl::Hours(1),
                               .part = FakeDraftEndpoint::FirstNodes(1),
                               .part_delay = kLater});
  // With a policy that drafts nothing, two tokens take two rounds; the test
  // looks at the first.
  GenerationRequest request = With("listening");
  Seen seen;
  cluster.Start(std::move(request), &seen);
  cluster.executor.AdvanceBy(ToyCluster::kDraftTimeout);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].arrived, kSoon);
  EXPECT_TRUE(heard[0].whole);
  EXPECT_EQ(heard[1].arrived, kLater);
  EXPECT_FALSE(heard[1].whole);
  cluster.executor.AdvanceBy(absl::Hours(2));
}

}  // namespace
}  // namespace espalier::coordinator
