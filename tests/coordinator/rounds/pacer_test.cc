// Paced outputs around the toy target, on a clock that the test moves.

#include "coordinator/rounds/pacer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr absl::Duration kPace = absl::Milliseconds(10);
const absl::Duration kLead = 4 * kPace;  // kAhead of them

// Sees when and how tokens come.
class TimedSink final : public TokenSink {
 public:
  explicit TimedSink(const Executor* executor) : executor_(executor) {}

  void OnTokens(const OutputPiece& piece) override {
    EXPECT_EQ(num_finishes, 0);
    times.push_back(executor_->Now());
    sizes.push_back(piece.tokens.size());
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    texts.emplace_back(piece.text);
    steps.push_back(piece.step.step);
    logprobs.Append(piece.logprobs);
    if (!piece.prompt.empty()) prompts.push_back(times.size());
  }
  void OnFinish(const absl::Status& with,
                const GenerationReport& report) override {
    ++num_finishes;
    status = with;
    finished = executor_->Now();
    last_text = report.last_text;
  }

  std::vector<absl::Duration> Gaps() const {
    std::vector<absl::Duration> gaps;
    for (size_t i = 1; i < times.size(); ++i) {
      gaps.push_back(times[i] - times[i - 1]);
    }
    return gaps;
  }

  std::vector<absl::Time> times;
  std::vector<size_t> sizes;
  std::vector<TokenId> tokens;
  std::vector<std::string> texts;
  std::vector<int64_t> steps;
  LogprobRows logprobs;
  std::vector<size_t> prompts;
  int num_finishes = 0;
  absl::Status status;
  absl::Time finished;
  std::string last_text;

 private:
  const Executor* const executor_;
};

class PacerTest : public ::testing::Test {
 protected:
  static Coordinator::Options Paced() { return {.pace = kPace}; }

  std::shared_ptr<TimedSink> Start(GenerationRequest request) {
    auto sink = std::make_shared<TimedSink>(&cluster_.executor);
    ticket_ = cluster_.coordinator->Start(std::move(request), sink);
    return sink;
  }
  std::shared_ptr<TimedSink> Run(GenerationRequest request) {
    auto sink = Start(std::move(request));
    cluster_.executor.AdvanceBy(absl::Hours(1));
    EXPECT_EQ(sink->num_finishes, 1);
    cluster_.ExpectNothingOpen();
    return sink;
  }

  ToyCluster cluster_{1, Paced()};
  Coordinator::Ticket ticket_ = 0;
};

TEST_F(PacerTest, OneTokenEachIntervalHoweverDraftsFit) {
  cluster_.verifier.Behave({.delay = kPace});
  const GenerationRequest request = ToyCluster::Request(30);
  for (const bool speculates : {true, false}) {
    GenerationRequest one = request;
    one.speculation.enabled = speculates;
    const absl::Time start = cluster_.executor.Now();
    const auto seen = Run(one);
    EXPECT_TRUE(seen->status.ok()) << seen->status;
    EXPECT_EQ(seen->tokens, cluster_.PlainText(request));
    EXPECT_THAT(seen->sizes, Each(1u));
    EXPECT_THAT(seen->Gaps(), Each(kPace));
    EXPECT_EQ(seen->times.front(), start + kPace + kLead);
    // The end comes with the last token.
    EXPECT_EQ(seen->finished, seen->times.back());
    EXPECT_THAT(seen->prompts, ElementsAre(1u));
    for (size_t i = 0; i < seen->steps.size(); ++i) {
      EXPECT_EQ(seen->steps[i], static_cast<int64_t>(i) + 1);
    }
  }
}

TEST_F(PacerTest, RoundsWaitForTheBuffer) {
  const auto seen = Start(ToyCluster::Request(200));
  cluster_.executor.AdvanceBy(kLead + 10 * kPace);
  EXPECT_THAT(seen->tokens, SizeIs(11));
  // At most the buffer and one tree are ahead of what was sent.
  EXPECT_LE(cluster_.verifier.requests().size(), 11u);
  EXPECT_EQ(cluster_.coordinator->Load().running, 1);
  cluster_.executor.AdvanceBy(absl::Hours(1));
  EXPECT_THAT(seen->tokens, SizeIs(200));
  EXPECT_THAT(seen->Gaps(), Each(kPace));
}

TEST_F(PacerTest, WhatIsLateComesAtALaterOfTheTimes) {
  cluster_.verifier.Behave({.delay = 2.5 * kPace});
  GenerationRequest request = ToyCluster::Request(30);
  request.speculation.enabled = false;
  const auto seen = Run(std::move(request));
  EXPECT_THAT(seen->tokens, SizeIs(30));
  EXPECT_THAT(seen->sizes, Each(1u));
  for (const absl::Duration gap : seen->Gaps()) {
    EXPECT_EQ(gap % kPace, absl::ZeroDuration());
  }
}

TEST_F(PacerTest, LogprobsStayWithTheirTokens) {
  GenerationRequest request = ToyCluster::Request(12);
  request.logprobs.emitted = 2;
  ToyCluster plain(1);
  auto expected = std::make_shared<TimedSink>(&plain.executor);
  plain.coordinator->Start(request, expected);
  plain.executor.AdvanceBy(absl::Hours(1));
  const auto seen = Run(std::move(request));
  EXPECT_EQ(seen->tokens, expected->tokens);
  EXPECT_EQ(seen->logprobs, expected->logprobs);
}

TEST_F(PacerTest, ACancelledOutputEndsAtOnce) {
  const auto seen = Start(ToyCluster::Request(200));
  cluster_.executor.AdvanceBy(kLead + 3 * kPace);
  EXPECT_EQ(seen->num_finishes, 0);
  const absl::Time cancelled = cluster_.executor.Now();
  cluster_.coordinator->Cancel(ticket_);
  cluster_.executor.RunUntilIdle();
  EXPECT_EQ(seen->num_finishes, 1);
  EXPECT_EQ(seen->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(seen->finished, cancelled);
  cluster_.ExpectNothingOpen();
}

// What the client has been told and what it was sent agree also then.
TEST_F(PacerTest, AtADeadlineWhatIsFinishedIsSent) {
  GenerationRequest request = ToyCluster::Request(5);
  const absl::Time start = cluster_.executor.Now();
  request.deadline = start + kLead + 2 * kPace + kPace / 2;
  const auto seen = Run(request);
  EXPECT_TRUE(seen->status.ok()) << seen->status;
  EXPECT_EQ(seen->tokens, cluster_.PlainText(request));
  EXPECT_EQ(seen->finished, request.deadline);
}

// A sink on a scope of its own, for what the coordinator does not produce.
TEST(PacerPieceTest, TheTextIsDividedAmongTheTokens) {
  FakeExecutor executor;
  const ExecutorScope scope(&executor);
  TimedSink sink(&executor);
  Pacer pacer(&scope, kPace, &sink);
  const std::vector<TokenId> tokens = {5, 6, 7};
  pacer.Add({.tokens = tokens, .text = "once upon"}, {4, 4, 9});
  bool ran = false;
  pacer.Await(1, [&] { ran = true; });
  executor.AdvanceBy(kLead);
  EXPECT_FALSE(ran);
  executor.AdvanceBy(kPace);
  EXPECT_TRUE(ran);
  executor.AdvanceBy(kPace);
  EXPECT_THAT(sink.texts, ElementsAre("once", "", " upon"));
  EXPECT_THAT(sink.tokens, ElementsAre(5, 6, 7));
  pacer.Add({.tokens = tokens, .text = "a"}, {1, 1, 1});
  pacer.Await(0, [] { FAIL() << "it was flushed"; });
  pacer.Flush();
  EXPECT_THAT(sink.texts, ElementsAre("once", "", " upon", "a", "", ""));
  executor.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(sink.texts, SizeIs(6));
}

}  // namespace
}  // namespace espalier::coordinator
