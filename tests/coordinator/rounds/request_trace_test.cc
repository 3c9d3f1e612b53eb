// The spans of requests, as the coordinator records them.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"
#include "tests/testing/span_list.h"

namespace espalier::coordinator {
namespace {

constexpr char kSampled[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kNotSampled[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

class RequestTraceTest : public ::testing::Test {
 protected:
  Seen Run(Tracing tracing, GenerationRequest request) {
    tracing.sink = &list_;
    ToyCluster cluster(1, {.tracing = tracing});
    cluster.verifier.Behave({.delay = absl::Milliseconds(10)});
    const Seen seen = cluster.Run(std::move(request));
    const auto& requests = cluster.verifier.requests();
    if (!requests.empty()) opening_ = requests[0].update.traceparent;
    return seen;
  }
  int64_t NumOf(const std::string& name) const {
    return std::count_if(list_.spans.begin(), list_.spans.end(),
                         [&](const Span& span) { return span.name == name; });
  }
  static GenerationRequest With(const std::string& traceparent) {
    GenerationRequest request = ToyCluster::Request(20);
    request.traceparent = traceparent;
    return request;
  }

  SpanList list_;
  std::string opening_;  // traceparent that the verifier saw
};

TEST_F(RequestTraceTest, StagesFollowEachOtherBelowTheRequest) {
  const Seen seen = Run({}, With(kSampled));
  ASSERT_TRUE(seen.status.ok());
  const Span request = list_.Only("generate");
  EXPECT_EQ(request.context.trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(request.parent, 0x00f067aa0ba902b7u);
  EXPECT_EQ(request.error, "");
  EXPECT_EQ(Attribute<int64_t>(request, "tokens"), 20);
  EXPECT_EQ(Attribute<int64_t>(request, "verifications"),
            seen.report.spec.num_spec_steps);
  absl::Time at = request.start;
  for (const char* const stage : {"queue", "prompt", "decode"}) {
    const Span span = list_.Only(stage);
    EXPECT_EQ(span.parent, request.context.span) << stage;
    EXPECT_EQ(span.context.trace_low, request.context.trace_low) << stage;
    EXPECT_EQ(span.start, at) << stage;
    at = span.end;
  }
  EXPECT_EQ(at, request.end);
  EXPECT_EQ(request.end - request.start, seen.report.timing.total);
  EXPECT_EQ(NumOf("round"), 0);
}

TEST_F(RequestTraceTest, PeersSeeTheRequestsSpanAsTheirParent) {
  Run({}, With(kSampled));
  EXPECT_EQ(opening_, ToTraceparent(list_.Only("generate").context));
}

TEST_F(RequestTraceTest, RoundsIfWanted) {
  const Seen seen = Run({.rounds = 1}, With(kSampled));
  EXPECT_EQ(NumOf("round"), seen.report.spec.num_spec_steps);
  const Span request = list_.Only("generate");
  int64_t accepted = 0;
  for (const Span& span : list_.spans) {
    if (span.name != "round") continue;
    EXPECT_EQ(span.parent, request.context.span);
    EXPECT_EQ(span.end - span.start, absl::Milliseconds(10));
    accepted += Attribute<int64_t>(span, "accepted");
  }
  EXPECT_EQ(accepted, seen.report.spec.num_accepted_draft_tokens);
}

TEST_F(RequestTraceTest, TheClientsChoiceHolds) {
  Run({.requests = 1, .rounds = 1}, With(kNotSampled));
  EXPECT_TRUE(list_.spans.empty());
  EXPECT_EQ(opening_, kNotSampled);
  Run({.requests = 0}, With(kSampled));
  EXPECT_EQ(NumOf("generate"), 1);
}

TEST_F(RequestTraceTest, WithoutATraceparentTheShareDecides) {
  Run({.requests = 0}, With(""));
  EXPECT_TRUE(list_.spans.empty());
  EXPECT_EQ(opening_, "");
  Run({.requests = 1}, With(""));
  EXPECT_EQ(list_.Only("generate").parent, 0u);
}

TEST_F(RequestTraceTest, OutputsShareTheTrace) {
  GenerationRequest request = With("");
  request.num_outputs = 2;
  struct NoSink final : TokenSink {
    void OnTokens(const OutputPiece&) override {}
    void OnFinish(const absl::Status& status,
                  const GenerationReport&) override {
      EXPECT_TRUE(status.ok()) << status;
    }
  };
  ToyCluster cluster(0, {.tracing = {.sink = &list_}});
  cluster.coordinator->Start(std::move(request), std::make_shared<NoSink>());
  cluster.executor.AdvanceBy(absl::Hours(1));
  ASSERT_EQ(NumOf("generate"), 2);
  uint64_t trace = 0;
  for (const Span& span : list_.spans) {
    if (trace == 0) trace = span.context.trace_low;
    EXPECT_EQ(span.context.trace_low, trace);
  }
}

TEST_F(RequestTraceTest, AnErrorIsNamedByItsCode) {
  GenerationRequest request = With(kSampled);
  request.deadline = absl::InfinitePast();
  Run({}, std::move(request));
  const Span span = list_.Only("generate");
  EXPECT_EQ(span.error, "DEADLINE_EXCEEDED");
  EXPECT_EQ(NumOf("decode"), 0);
}

}  // namespace
}  // namespace espalier::coordinator
