// A warm rule decides a tree without allocating.

#include <cstdlib>
#include <new>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "lab/toy.h"
#include "tests/verifier/flow/flow_cases.h"
#include "verifier/flow/tree_verifier.h"
#include "verifier/flow/tree_verifiers.h"
#include "verifier/rules/token_samplers.h"

namespace {

int64_t allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(size_t size,
                                     const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace espalier::verifier {
namespace {

// Distributions that are there already.
class StoredDistributions final : public TargetDistributions {
 public:
  StoredDistributions(const SequenceModel& model, const TokenTree& tree) {
    for (int32_t node = 0; node < tree.num_nodes(); ++node) {
      distributions_.push_back(model.Distribution(TextOf(tree, node)));
    }
    log_weights_.assign(model.vocab(), 0);
  }
  absl::StatusOr<TargetDistribution> DistributionAt(int32_t node) override {
    return TargetDistribution{.log_weights = log_weights_,
                              .probabilities = distributions_[node]};
  }

 private:
  std::vector<absl::Span<const double>> distributions_;
  std::vector<float> log_weights_;
};

class WarmRule : public ::testing::TestWithParam<std::string> {
 protected:
  void ExpectNoAllocation(const DraftScheme& scheme);
};

void WarmRule::ExpectNoAllocation(const DraftScheme& scheme) {
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  const auto verifier = *registry.Create(GetParam());
  const ToyModels models({.vocab = 20}, /*seed=*/1);
  std::mt19937_64 random(1);
  const TokenTree tree =
      DraftTree(scheme, {{&models.drafter()}},
                [&random](absl::Span<const double> distribution) {
                  return std::discrete_distribution<int64_t>(
                      distribution.begin(), distribution.end())(random);
                });
  StoredDistributions distributions(models.target(), tree);
  GumbelSampler sampler(1);
  FlowTree flow_tree;
  StopDistribution distribution;
  const auto decide = [&] {
    flow_tree.Build(tree);
    ASSERT_TRUE(flow_tree.GatherTarget(distributions).ok());
    verifier->Verify(flow_tree, /*round=*/1, sampler, distribution);
  };
  for (int i = 0; i < 4; ++i) decide();
  const int64_t before = allocations;
  decide();
  EXPECT_EQ(allocations, before);
}

TEST_P(WarmRule, DoesNotAllocate) {
  const Shape shape = Branching({2, 2, 2, 2, 2});
  ExpectNoAllocation(AllSampled(shape));
  ExpectNoAllocation(WithoutReplacement(shape));
}

std::vector<std::string> Names() {
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  return registry.Names();
}

INSTANTIATE_TEST_SUITE_P(Rules, WarmRule, ::testing::ValuesIn(Names()),
                         [](const auto& named) {
                           return TestName(named.param);
                         });

}  // namespace
}  // namespace espalier::verifier
