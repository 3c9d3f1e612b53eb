// Peers die, hang and come back while a text is streamed. The client must see
// the same text as without the fault.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest()
      : cluster_({.model = CharModelFolder(), .drafters = LookupAndBigram()}) {
    cluster_.AwaitReady();
  }

  // Runs `request` and calls `fault` once, when a few tokens have arrived.
  Generated RunWithFault(const v1::GenerateRequest& request,
                         const std::function<void()>& fault) {
    bool done = false;
    return Generate(cluster_.stub(), request,
                    [&](const v1::GenerateResponse&, grpc::ClientContext&) {
                      if (!done) fault();
                      done = true;
                    });
  }

  Generated Run(const v1::GenerateRequest& request) {
    return Generate(cluster_.stub(), request);
  }

  void AwaitNoSessions(const std::string& drafter) {
    cluster_.AwaitMetric(drafter, "espalier_sessions_open{drafter=\"" +
                                      drafter + "\",role=\"drafter\"} 0");
  }

  Cluster cluster_;
};

TEST_F(FaultsTest, ADrafterKilledInMidStreamIsNotNoticedAndComesBack) {
  const v1::GenerateRequest request = CharRequest(1.0f, 5);
  const Generated plain = Run(Plain(request));
  const Generated out = RunWithFault(request, [&] { cluster_.Kill("bigram"); });
  EXPECT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, plain.token_ids);

  cluster_.Start("bigram");
  cluster_.AwaitReady();
  v1::GenerateRequest again = request;
  again.mutable_speculation()->add_drafters("bigram");
  const Generated after = Run(again);
  EXPECT_EQ(after.token_ids, plain.token_ids);
  EXPECT_GT(after.summary.spec_stats().num_accepted_draft_tokens(), 0);
}

TEST_F(FaultsTest, AHungDrafterIsNotNoticedAndComesBack) {
  const v1::GenerateRequest request = CharRequest(0.0f, 5);
  const Generated plain = Run(Plain(request));
  const Generated out =
      RunWithFault(request, [&] { cluster_.Signal("bigram", SIGSTOP); });
  EXPECT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, plain.token_ids);
  cluster_.Signal("bigram", SIGCONT);
  const Generated after = Run(request);
  EXPECT_EQ(after.token_ids, plain.token_ids);
}

TEST_F(FaultsTest, WithoutAnyDrafterItDecodesPlainly) {
  const v1::GenerateRequest request = CharRequest(1.0f, 6);
  const Generated plain = Run(Plain(request));
  cluster_.Kill("bigram");
  cluster_.Kill("lookup");
  const Generated out = Run(request);
  EXPECT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, plain.token_ids);
  EXPECT_DOUBLE_EQ(out.summary.spec_stats().mean_acceptance_length(), 1.0);
  // The last step has no room for a tree, so none is missed there.
  EXPECT_EQ(out.summary.spec_stats().degraded_steps(),
            out.summary.spec_stats().num_spec_steps() - 1);
}

TEST_F(FaultsTest, ARestartedVerifierGoesOnWhereTheTextStood) {
  for (float temperature : {0.0f, 1.0f}) {
    const v1::GenerateRequest request = CharRequest(temperature, 8);
    const Generated plain = Run(Plain(request));
    const Generated out = RunWithFault(request, [&] {
      cluster_.Kill("verifier");
      cluster_.Start("verifier");
    });
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    EXPECT_EQ(out.token_ids, plain.token_ids);
    EXPECT_EQ(out.text, plain.text);
  }
}

TEST(LostModelTest, EndsTheVerifierAndTheTextGoesOnWithTheNext) {
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = LookupAndBigram(),
                   .verifier_program = LOSING_VERIFIER});
  cluster.AwaitReady();
  const v1::GenerateRequest request = CharRequest(1.0f, 8);
  const Generated plain = Generate(cluster.stub(), Plain(request));
  bool lost = false;
  const Generated out = Generate(
      cluster.stub(), request,
      [&](const v1::GenerateResponse&, grpc::ClientContext&) {
        if (std::exchange(lost, true)) return;
        cluster.Signal("verifier", SIGUSR1);
        EXPECT_EQ(cluster.process("verifier").Wait(), 1);
        EXPECT_NE(cluster.process("verifier").Log().find("an illegal address"),
                  std::string::npos);
        cluster.Start("verifier");
      });
  EXPECT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, plain.token_ids);
  EXPECT_EQ(out.text, plain.text);
}

TEST_F(FaultsTest, AVerifierThatStaysAwayEndsTheRequestAtItsDeadline) {
  cluster_.Kill("verifier");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(5));
  auto reader = cluster_.stub().Generate(&context, CharRequest(0.0f, 1));
  v1::GenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status status = reader->Finish();
  // Before the deadline, because a client does not read what comes at it.
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("verifier"));
}

TEST_F(FaultsTest, ACancelledClientFreesEveryPeersState) {
  const Generated out =
      Generate(cluster_.stub(), CharRequest(0.0f, 1),
               [](const v1::GenerateResponse&, grpc::ClientContext& context) {
                 context.TryCancel();
               });
  EXPECT_EQ(out.status.error_code(), grpc::StatusCode::CANCELLED);
  cluster_.AwaitMetric("coordinator",
                       "espalier_sessions_open{role=\"coordinator\"} 0");
  cluster_.AwaitMetric("verifier",
                       "espalier_sessions_open{role=\"verifier\"} 0");
  cluster_.AwaitMetric("verifier", "espalier_kv_tokens_used 0");
  for (const char* name : {"lookup", "bigram"}) AwaitNoSessions(name);
}

TEST_F(FaultsTest, PeersDropTheSessionsOfACoordinatorThatDied) {
  RunWithFault(CharRequest(0.0f, 1), [&] { cluster_.Kill("coordinator"); });
  cluster_.AwaitMetric("verifier",
                       "espalier_sessions_open{role=\"verifier\"} 0");
  AwaitNoSessions("lookup");
  cluster_.Start("coordinator");
  cluster_.AwaitReady();
  EXPECT_TRUE(Run(CharRequest(0.0f, 1)).status.ok());
}

TEST_F(FaultsTest, AbortEndsTheRequestAndIsIdempotent) {
  v1::GenerateRequest request = CharRequest(0.0f, 1);
  request.set_request_id("to-be-aborted");
  const Generated out = RunWithFault(request, [&] {
    grpc::ClientContext context;
    v1::AbortRequest abort;
    abort.set_request_id("to-be-aborted");
    v1::AbortResponse response;
    EXPECT_TRUE(cluster_.stub().Abort(&context, abort, &response).ok());
  });
  EXPECT_EQ(out.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_LT(out.token_ids.size(), 160);
}

TEST_F(FaultsTest, SigtermDrainsAndExitsCleanly) {
  for (const char* name : {"coordinator", "bigram", "lookup", "verifier"}) {
    cluster_.Signal(name, SIGTERM);
    EXPECT_EQ(cluster_.process(name).Wait(), 0) << name;
  }
}

}  // namespace
}  // namespace espalier::testing
