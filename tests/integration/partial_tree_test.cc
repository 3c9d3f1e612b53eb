// A drafter on the other side of a socket that reports a part of its tree and
// then hangs: the round uses the part.

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/server_runner.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/rounds/coordinator.h"
#include "drafter/engine/draft_engine.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_endpoints.h"
#include "tests/testing/finished_generation.h"
#include "tests/testing/toy_target.h"

namespace espalier::partial_tree_test {
namespace {

using Text = std::vector<TokenId>;

absl::Time Generous() { return absl::Now() + absl::Seconds(120); }

ModelIdentity Identity() {
  return {.name = "toy", .vocab_size = 50, .tokenizer_fingerprint = 1};
}

std::string Address() {
  return absl::StrCat("unix:/tmp/espalier_", getpid(), "_partial_drafter");
}

// Reports three right tokens; the rest comes when `go_on` says so.
class HangingDrafter final : public drafter::Drafter {
 public:
  explicit HangingDrafter(Notification* go_on) : go_on_(*go_on) {}

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const drafter::SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const drafter::SequenceView& view : batch) {
      const Text text(view.tokens.begin(), view.tokens.end());
      const int64_t depth = view.budget.max_depth;
      view.report(ToyTarget().PerfectChain(text, std::min<int64_t>(3, depth)));
      go_on_.Wait();
      trees.push_back(ToyTarget().PerfectChain(text, depth));
    }
    return trees;
  }
  void Forget(SequenceId /*id*/) override {}

 private:
  Notification& go_on_;
};

class PartialTreeTest : public ::testing::Test {
 protected:
  PartialTreeTest() {
    v1::ServerConfig config;
    config.add_listen(Address());
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Drafter", service_->calls()}},
         .registry = std::make_shared<prometheus::Registry>(),
         .drain = [](absl::Time) {}});
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    EXPECT_TRUE(drafter_.AwaitState(PeerState::kReady, Generous()));
    coordinator::RegisterMergePolicies(policies_);
    auto made = coordinator::Coordinator::Create(
        {.executor = &executor_,
         .drafters = {{.name = "hanging", .endpoint = &drafter_}},
         .verifier = &verifier_,
         .verifier_info = [] { return Info(); },
         .policies = &policies_,
         .metrics = &metrics_,
         .model = "toy",
         .draft_timeout = absl::Seconds(2)});
    EXPECT_TRUE(made.ok()) << made.status();
    coordinator_ = *std::move(made);
  }
  ~PartialTreeTest() override { testing::ShutDownAndWait(*coordinator_); }

  static VerifierInfo Info() {
    VerifierInfo info;
    info.model = Identity();
    info.max_context = 1000;
    info.max_tree_nodes = 64;
    info.rules = {"walk"};
    info.shape = ToyTarget::kShape;
    return info;
  }

  void Run(testing::FinishedGeneration& result) {
    coordinator::GenerationRequest request;
    request.speculation.max_nodes = 16;
    request.request_id = "r";
    request.prompt = {3, 1, 4, 1, 5};
    request.max_tokens = 12;
    request.ignore_eos = true;
    const Text plain = ToyTarget().PlainText(request.prompt, 12);
    coordinator_->Start(
        std::move(request),
        std::make_unique<testing::FinishedGenerationSink>(&result));
    ASSERT_TRUE(result.finished.WaitUntil(Generous()));
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.text, plain);
  }

  Notification go_on_;
  prometheus::Registry metrics_;
  SerialExecutor executor_{"coordinator"};
  FakeVerifyEndpoint verifier_{&executor_, ToyTarget()};
  drafter::DraftEngine engine_{{.name = "hanging",
                                .vocab_size = 50,
                                .report_after = absl::ZeroDuration()},
                               std::make_unique<HangingDrafter>(&go_on_),
                               std::make_unique<SerialExecutor>("drafter"),
                               drafter::MakeDrafterMetrics(metrics_, "d")};
  const std::unique_ptr<PeerService> service_ =
      NewDrafterService(engine_, {.name = "hanging",
                                  .type = "hanging",
                                  .model = Identity(),
                                  .max_nodes = 16,
                                  .max_depth = 8});
  std::unique_ptr<ServerRunner> runner_;
  RemoteDraftEndpoint drafter_{{.name = "hanging",
                                .address = Address(),
                                .model = Identity(),
                                .registry = metrics_,
                                .min_backoff = absl::Milliseconds(5)}};
  Registry<coordinator::MergePolicy> policies_{"strategy"};
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

TEST_F(PartialTreeTest, IsUsedAtTheDeadlineAndTheRestIsDropped) {
  testing::FinishedGeneration hung, whole;
  Run(hung);
  EXPECT_EQ(hung.report.spec.num_accepted_draft_tokens, 3);
  EXPECT_EQ(hung.report.spec.num_spec_steps, 1 + 8);  // no further round waits
  EXPECT_EQ(hung.report.spec.drafters[0].timeouts, 0);

  go_on_.Notify();  // the late rest is dropped
  Run(whole);
  EXPECT_EQ(whole.report.spec.num_spec_steps, 2);
}

}  // namespace
}  // namespace espalier::partial_tree_test
