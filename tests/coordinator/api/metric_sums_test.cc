#include "coordinator/api/metric_sums.h"

#include <memory>

#include "common/obs/metrics.h"
#include "coordinator/api/status_history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(MetricSums, AddCountersByALabel) {
  prometheus::Registry registry;
  for (const char* name : {"a", "b"}) {
    for (const char* kind : {"x", "y"}) {
      AddCounter(registry, {.name = "n_total",
                            .help = "n",
                            .labels = {{"name", name}, {"kind", kind}}})
          .Increment(name[0] == 'a' ? 1 : 10);
    }
  }
  const MetricFamilies families = registry.Collect();
  EXPECT_THAT(SumBy(families, "n_total", "name"),
              ElementsAre(Pair("a", 2), Pair("b", 20)));
  EXPECT_EQ(TotalOf(families, "n_total"), 22);
  EXPECT_EQ(TotalOf(families, "none"), 0);
}

TEST(MetricSums, QuantilesLieInTheirBucketsOverAllLabels) {
  prometheus::Registry registry;
  for (const char* name : {"a", "b"}) {
    auto& histogram = AddHistogram(
        registry, {.name = "s", .help = "s", .labels = {{"name", name}}},
        {1, 2, 4});
    for (double value : {0.5, 1.5, 3.0, 9.0}) histogram.Observe(value);
  }
  const Observations seen =
      ObservationsOf(registry.Collect(), "s", {0.25, 0.375, 0.75, 0.99});
  EXPECT_EQ(seen.count, 8);
  EXPECT_EQ(seen.sum, 28);
  // Two of eight observations in each bucket; the last has no upper end.
  EXPECT_THAT(seen.quantiles, ElementsAre(1, 1.5, 4, 4));
}

TEST(MetricSums, NothingObservedHasNoQuantiles) {
  prometheus::Registry registry;
  AddHistogram(registry, {.name = "s", .help = "s", .labels = {}}, {1});
  EXPECT_THAT(ObservationsOf(registry.Collect(), "s", {0.5}).quantiles,
              IsEmpty());
  EXPECT_EQ(ObservationsOf({}, "s", {0.5}).count, 0);
}

TEST(StatusHistory, KeepsTheLastSamples) {
  StatusHistory history;
  for (size_t i = 0; i < StatusHistory::kLength + 3; ++i) {
    history.Add({.at_s = static_cast<double>(i)});
  }
  const auto samples = history.Samples();
  EXPECT_EQ(samples.size(), StatusHistory::kLength);
  EXPECT_EQ(samples.front().at_s, 3);
}

}  // namespace
}  // namespace espalier::coordinator
