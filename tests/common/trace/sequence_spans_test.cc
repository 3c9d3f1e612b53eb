#include "common/trace/sequence_spans.h"

#include "gtest/gtest.h"
#include "tests/testing/span_list.h"

namespace espalier {
namespace {

constexpr char kSampled[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kNotSampled[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

SequenceUpdate Opening(uint64_t number, const std::string& traceparent) {
  return {.sequence = {.coordinator_epoch = 1, .number = number},
          .traceparent = traceparent};
}

class SequenceSpansTest : public ::testing::Test {
 protected:
  SpanList list_;
  SequenceSpans spans_{"verify", {{"drafter", "d"}}, &list_};
};

TEST_F(SequenceSpansTest, ASpanLastsAsLongAsItsSequence) {
  const SequenceUpdate update = Opening(1, kSampled);
  EXPECT_TRUE(spans_.Begin(update, At(10)));
  EXPECT_TRUE(spans_.Begin(Opening(1, ""), At(11))) << "a later round";
  spans_.Add(update.sequence, {{"rounds", 1}, {"ms", 2.5}});
  spans_.Add(update.sequence, {{"rounds", 1}});
  EXPECT_TRUE(list_.spans.empty());
  spans_.End(update.sequence, At(12));
  const Span span = list_.Only("verify");
  EXPECT_EQ(span.start, At(10));
  EXPECT_EQ(span.end, At(12));
  EXPECT_EQ(span.context.trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(span.context.trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(span.parent, 0x00f067aa0ba902b7u);
  EXPECT_NE(span.context.span, span.parent);
  EXPECT_NE(span.context.span, 0u);
  EXPECT_TRUE(span.serves);
  EXPECT_EQ(Attribute<double>(span, "rounds"), 2);
  EXPECT_EQ(Attribute<double>(span, "ms"), 2.5);
  EXPECT_EQ(Attribute<std::string>(span, "drafter", ""), "d");
}

TEST_F(SequenceSpansTest, OthersHaveNone) {
  EXPECT_FALSE(spans_.Begin(Opening(1, kNotSampled), At(1)));
  EXPECT_FALSE(spans_.Begin(Opening(2, ""), At(1)));
  EXPECT_FALSE(spans_.Begin(Opening(3, "00-nonsense"), At(1)));
  for (uint64_t number : {1, 2, 3}) {
    spans_.Add(Opening(number, "").sequence, {{"rounds", 1}});
    spans_.End(Opening(number, "").sequence, At(2));
  }
  EXPECT_TRUE(list_.spans.empty());
}

// A coordinator that is gone does not say that a sequence has ended.
TEST_F(SequenceSpansTest, TheOldestMakeRoom) {
  for (size_t i = 0; i < SequenceSpans::kMaxOpen; ++i) {
    spans_.Begin(Opening(i, kSampled), At(static_cast<int64_t>(100 + i)));
  }
  EXPECT_TRUE(list_.spans.empty());
  EXPECT_TRUE(spans_.Begin(Opening(1'000'000, kSampled), At(100'000)));
  EXPECT_EQ(list_.Only("verify").start, At(100));
}

TEST(SequenceSpansEndTest, AllEndWithTheObject) {
  SpanList list;
  {
    SequenceSpans spans("draft", {}, &list);
    spans.Begin(Opening(1, kSampled), At(1));
  }
  EXPECT_EQ(list.Only("draft").start, At(1));
}

}  // namespace
}  // namespace espalier
