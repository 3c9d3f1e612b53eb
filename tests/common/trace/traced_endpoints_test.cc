#include "common/trace/traced_endpoints.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/span_list.h"

namespace espalier::traced_endpoints_test {
namespace {

constexpr char kSampled[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr SequenceId kSequence = {.coordinator_epoch = 1, .number = 2};

// Holds all answers back.
struct HeldVerifier final : VerifyEndpoint {
  void Verify(VerifyRequest, absl::Time, Done<VerifyResult> done) override {
    held.push_back(std::move(done));
  }
  void EndSequence(SequenceId) override { ++ended; }
  std::vector<Done<VerifyResult>> held;
  int ended = 0;
};

struct HeldDrafter final : DraftEndpoint {
  void Propose(ProposeRequest, absl::Time, OnPartial,
               Done<Proposal> done) override {
    held.push_back(std::move(done));
  }
  void EndSequence(SequenceId) override { ++ended; }
  std::vector<Done<Proposal>> held;
  int ended = 0;
};

TEST(TracedVerifierTest, SumsWhatItsRoundsTook) {
  SpanList list;
  HeldVerifier held;
  const auto traced = TraceVerifier(held, &list);
  int answers = 0;
  for (int round = 0; round < 3; ++round) {
    traced->Verify({.update = {.sequence = kSequence,
                               .traceparent = round == 0 ? kSampled : ""}},
                   absl::InfiniteFuture(),
                   [&](const absl::StatusOr<VerifyResult>&) { ++answers; });
  }
  for (int round = 0; round < 2; ++round) {
    std::move(held.held[round])(
        VerifyResult{.tokens = {1, 2},
                     .timings = {.queue = absl::Milliseconds(1),
                                 .forward = absl::Milliseconds(5)}});
  }
  std::move(held.held[2])(absl::UnavailableError("gone"));
  EXPECT_EQ(answers, 3);
  traced->EndSequence(kSequence);
  EXPECT_EQ(held.ended, 1);
  const Span span = list.Only("verify");
  EXPECT_EQ(span.parent, 0x00f067aa0ba902b7u);
  EXPECT_EQ(Attribute<double>(span, "rounds"), 2);
  EXPECT_EQ(Attribute<double>(span, "errors"), 1);
  EXPECT_EQ(Attribute<double>(span, "tokens"), 4);
  EXPECT_EQ(Attribute<double>(span, "queue_ms"), 2);
  EXPECT_EQ(Attribute<double>(span, "forward_ms"), 10);
}

TEST(TracedVerifierTest, AnswersOutliveIt) {
  SpanList list;
  HeldVerifier held;
  auto traced = TraceVerifier(held, &list);
  bool answered = false;
  traced->Verify({.update = {.sequence = kSequence, .traceparent = kSampled}},
                 absl::InfiniteFuture(),
                 [&](const absl::StatusOr<VerifyResult>&) { answered = true; });
  traced.reset();
  std::move(held.held[0])(absl::UnavailableError("stopping"));
  EXPECT_TRUE(answered);
  held.held.clear();
  EXPECT_EQ(Attribute<double>(list.Only("verify"), "errors"), 1);
}

TEST(TracedDrafterTest, SumsWhatItProposed) {
  SpanList list;
  HeldDrafter held;
  const auto traced = TraceDrafter(held, "lookup", &list);
  traced->Propose({.update = {.sequence = kSequence, .traceparent = kSampled}},
                  absl::InfiniteFuture(), nullptr,
                  [](const absl::StatusOr<Proposal>&) {});
  std::move(held.held[0])(
      Proposal{.tree = {.tokens = {1, 2, 3}, .parents = {-1, 0, 1}},
               .compute_time = absl::Milliseconds(4)});
  traced->EndSequence(kSequence);
  EXPECT_EQ(held.ended, 1);
  const Span span = list.Only("draft");
  EXPECT_EQ(Attribute<std::string>(span, "drafter", ""), "lookup");
  EXPECT_EQ(Attribute<double>(span, "nodes"), 2);
  EXPECT_EQ(Attribute<double>(span, "compute_ms"), 4);
}

TEST(TracedEndpointsTest, NoSinkNoDecorator) {
  HeldVerifier verifier;
  HeldDrafter drafter;
  EXPECT_EQ(TraceVerifier(verifier, nullptr), nullptr);
  EXPECT_EQ(TraceDrafter(drafter, "d", nullptr), nullptr);
}

}  // namespace
}  // namespace espalier::traced_endpoints_test
