// Requests with several outputs, around the toy target.

#include <memory>
#include <set>
#include <vector>

#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

// The client's view of every output.
class OutputsSink final : public TokenSink {
 public:
  explicit OutputsSink(std::vector<Seen>* seen) : seen_(*seen) {}
  void OnTokens(const OutputPiece& piece) override {
    Seen& seen = seen_.at(piece.output);
    EXPECT_EQ(seen.num_finishes, 0) << "tokens after the end";
    EXPECT_EQ(piece.prompt.empty(), piece.output > 0 || !seen.tokens.empty());
    seen.tokens.insert(seen.tokens.end(), piece.tokens.begin(),
                       piece.tokens.end());
  }
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override {
    Seen& seen = seen_.at(report.output);
    ++seen.num_finishes;
    seen.status = status;
    seen.report = report;
  }

 private:
  std::vector<Seen>& seen_;
};

class OutputsTest : public ::testing::Test {
 protected:
  Coordinator::Ticket Start(ToyCluster& cluster, int64_t num_outputs,
                            GenerationRequest request) {
    request.num_outputs = num_outputs;
    seen_.assign(static_cast<size_t>(num_outputs), {});
    return cluster.coordinator->Start(std::move(request),
                                      std::make_shared<OutputsSink>(&seen_));
  }

  void ExpectAllFinishedOnce() const {
    for (const Seen& seen : seen_) EXPECT_EQ(seen.num_finishes, 1);
  }

  std::vector<Seen> seen_;
};

TEST_F(OutputsTest, EachIsWhatItsSeedGivesAlone) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request();
  request.sampling = {.temperature = 1, .seed = ~uint64_t{0}};
  Start(cluster, 3, request);
  cluster.executor.AdvanceBy(absl::Hours(1));
  ExpectAllFinishedOnce();
  cluster.ExpectNothingOpen();
  std::set<uint64_t> seeds;
  for (const VerifyRequest& asked : cluster.verifier.requests()) {
    seeds.insert(asked.update.sampling.seed);
  }
  EXPECT_EQ(seeds, (std::set<uint64_t>{~uint64_t{0}, 0, 1}));
  for (const Seen& seen : seen_) {
    EXPECT_TRUE(seen.status.ok()) << seen.status;
    EXPECT_EQ(seen.tokens, cluster.PlainText(request));
    EXPECT_EQ(seen.report.usage.prompt_tokens, 5);
    EXPECT_EQ(seen.report.usage.completion_tokens, 20);
  }
}

TEST_F(OutputsTest, TheOthersWaitForThePromptOfTheFirst) {
  ToyCluster cluster(0);
  cluster.verifier.Behave({.delay = kHeld});
  Start(cluster, 3, ToyCluster::Request());
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(cluster.verifier.requests().size(), 1u);
  EXPECT_EQ(cluster.coordinator->Load().running, 1);
  EXPECT_EQ(cluster.coordinator->Load().queued, 2);
  cluster.verifier.Release();
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(cluster.coordinator->Load().running, 3);
  cluster.coordinator->Abort("r", [](bool was_live) { EXPECT_TRUE(was_live); });
  cluster.executor.AdvanceBy(absl::Hours(1));
  ExpectAllFinishedOnce();
  cluster.ExpectNothingOpen();
  for (const Seen& seen : seen_) EXPECT_TRUE(absl::IsCancelled(seen.status));
}

// A later request does not wait for outputs that cannot run yet.
TEST_F(OutputsTest, ThoseThatWaitForAPromptHoldNobodyUp) {
  ToyCluster cluster(0, {.max_sessions = 2});
  cluster.verifier.Behave({.delay = kHeld});
  Start(cluster, 3, ToyCluster::Request());
  cluster.executor.RunUntilIdle();
  GenerationRequest request = ToyCluster::Request();
  request.request_id = "other";
  Seen other;
  cluster.Start(request, &other);
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(cluster.coordinator->Load().running, 2);
  EXPECT_EQ(cluster.verifier.requests().size(), 2u);
  cluster.verifier.Behave(FakeVerifyEndpoint::Behaviour{});
  cluster.verifier.Release();
  cluster.executor.AdvanceBy(absl::Hours(1));
  ExpectAllFinishedOnce();
  EXPECT_TRUE(other.status.ok());
  cluster.ExpectNothingOpen();
}

TEST_F(OutputsTest, AnErrorOfOneEndsAll) {
  ToyCluster cluster(0);
  int calls = 0;
  cluster.verifier.Behave([&] {
    FakeVerifyEndpoint::Behaviour behaviour;
    if (++calls == 4) behaviour.error = absl::InternalError("broken");
    return behaviour;
  });
  Start(cluster, 3, ToyCluster::Request());
  cluster.executor.AdvanceBy(absl::Hours(1));
  ExpectAllFinishedOnce();
  cluster.ExpectNothingOpen();
  int internal = 0, cancelled = 0;
  for (const Seen& seen : seen_) {
    internal += absl::IsInternal(seen.status);
    cancelled += absl::IsCancelled(seen.status);
  }
  EXPECT_EQ(internal, 1);
  EXPECT_EQ(cancelled, 2);
}

TEST_F(OutputsTest, CancelAndShutdownEndAll) {
  for (bool shut_down : {false, true}) {
    ToyCluster cluster(0);
    cluster.verifier.Behave({.delay = kHeld});
    const auto ticket = Start(cluster, 4, ToyCluster::Request());
    cluster.executor.RunUntilIdle();
    if (shut_down) {
      bool done = false;
      cluster.coordinator->Shutdown([&done] { done = true; });
      cluster.executor.RunUntilIdle();
      EXPECT_TRUE(done);
    } else {
      cluster.coordinator->Cancel(ticket);
      cluster.executor.RunUntilIdle();
    }
    ExpectAllFinishedOnce();
    cluster.ExpectNothingOpen();
  }
}

TEST_F(OutputsTest, EachTakesAPlace) {
  ToyCluster cluster(0, {.max_sessions = 2, .max_queued = 3});
  cluster.verifier.Behave({.delay = kHeld});
  Start(cluster, 6, ToyCluster::Request());
  cluster.executor.RunUntilIdle();
  ExpectAllFinishedOnce();
  EXPECT_EQ(FieldOf(seen_[0].status), "n");
  EXPECT_THAT(seen_[0].status.message(), HasSubstr("at most 5"));
  Start(cluster, 4, ToyCluster::Request());
  cluster.executor.RunUntilIdle();
  EXPECT_EQ(seen_[0].num_finishes, 0);
  GenerationRequest request = ToyCluster::Request();
  request.request_id = "other";
  request.num_outputs = 2;
  std::vector<Seen> refused(2);
  cluster.coordinator->Start(request, std::make_shared<OutputsSink>(&refused));
  cluster.executor.RunUntilIdle();
  for (const Seen& seen : refused) {
    EXPECT_EQ(seen.num_finishes, 1);
    EXPECT_TRUE(absl::IsResourceExhausted(seen.status)) << seen.status;
  }
  cluster.coordinator->Shutdown([] {});
  cluster.executor.RunUntilIdle();
}

// The first output that is not finished computes the prompt for the others, and
// one that its tokens have ended needs no round.
TEST_F(OutputsTest, FinishedOutputsAreNotRunAgain) {
  ToyCluster cluster(1);
  GenerationRequest request = ToyCluster::Request();
  const std::vector<TokenId> text = cluster.PlainText(request);
  request.resumed = {{.tokens = text, .finished = true},
                     {.tokens = text},
                     {.tokens = {text[0], text[1]}}};
  Start(cluster, 3, request);
  cluster.executor.AdvanceBy(absl::Hours(1));
  cluster.ExpectNothingOpen();
  EXPECT_EQ(seen_[0].num_finishes, 0);
  for (int i : {1, 2}) {
    EXPECT_EQ(seen_[i].num_finishes, 1);
    EXPECT_TRUE(seen_[i].status.ok()) << seen_[i].status;
    EXPECT_EQ(seen_[i].report.finish_reason, FinishReason::kLength);
    EXPECT_EQ(seen_[i].report.usage.completion_tokens, 20);
  }
  EXPECT_TRUE(seen_[1].tokens.empty());
  EXPECT_EQ(seen_[2].tokens,
            std::vector<TokenId>(text.begin() + 2, text.end()));
}

TEST_F(OutputsTest, ResumedTokensAfterAnEndAreRefused) {
  ToyCluster cluster(0);
  GenerationRequest request = ToyCluster::Request();
  request.stop_token_ids = {cluster.PlainText(request)[3]};
  request.resumed = {{.tokens = cluster.PlainText(ToyCluster::Request())}};
  Start(cluster, 1, request);
  cluster.executor.AdvanceBy(absl::Hours(1));
  cluster.ExpectNothingOpen();
  EXPECT_EQ(FieldOf(seen_[0].status), "resumption.outputs[0].token_ids");
}

}  // namespace
}  // namespace espalier::coordinator
