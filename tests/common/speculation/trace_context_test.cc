#include "common/speculation/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(TraceContextTest, KnowsATraceparent) {
  const std::string good =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_TRUE(IsTraceparent(good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(IsTraceparent(good.substr(0, i))) << i;
    std::string bad = good;
    bad[i] = good[i] == '-' ? '0' : 'G';
    EXPECT_FALSE(IsTraceparent(bad)) << bad;
  }
  EXPECT_FALSE(IsTraceparent(good + "0"));
  EXPECT_FALSE(
      IsTraceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  EXPECT_FALSE(
      IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
}

TEST(TraceContextTest, ReadsAndWritesATraceparent) {
  for (const char* const text :
       {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-0000000000000001ffffffffffffffff-0000000000000002-00"}) {
    const auto context = ParseTraceparent(text);
    ASSERT_TRUE(context.has_value());
    EXPECT_EQ(ToTraceparent(*context), text);
  }
  EXPECT_EQ(ParseTraceparent("00-"), std::nullopt);
  // Unknown flags are not passed on (section 4.3).
  const auto flagged = ParseTraceparent(
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff");
  EXPECT_EQ(ToTraceparent(*flagged).substr(52), "-01");
}

TEST(TraceContextTest, NewSpansAreOfTheirTraceAndDiffer) {
  const TraceContext trace = NewTrace();
  EXPECT_EQ(trace.span, 0u);
  const TraceContext one = NewSpanOf(trace), two = NewSpanOf(trace);
  EXPECT_EQ(one.trace_high, trace.trace_high);
  EXPECT_EQ(one.trace_low, trace.trace_low);
  EXPECT_TRUE(one.sampled);
  EXPECT_NE(one.span, two.span);
  EXPECT_NE(NewTrace().trace_low, trace.trace_low);
  EXPECT_TRUE(IsTraceparent(ToTraceparent(one)));
}

}  // namespace
}  // namespace espalier
