// A coordinator with fake peers around the toy target, on a clock that the test
// moves.
#ifndef ESPALIER_TESTS_COORDINATOR_TOY_CLUSTER_H_
#define ESPALIER_TESTS_COORDINATOR_TOY_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/rounds/coordinator.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_endpoints.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/toy_target.h"

namespace espalier::coordinator {

// The client's view of a request.
struct Seen {
  std::vector<TokenId> tokens;
  std::vector<StepInfo> steps;
  int64_t cached_tokens = 0;  // as the last piece had it
  int num_finishes = 0;
  absl::Status status;
  GenerationReport report;
};

class SeenSink final : public TokenSink {
 public:
  explicit SeenSink(Seen* seen) : seen_(seen) {}

  void OnTokens(const OutputPiece& piece) override {
    EXPECT_EQ(seen_->num_finishes, 0) << "tokens after the end";
    EXPECT_FALSE(piece.tokens.empty());
    seen_->tokens.insert(seen_->tokens.end(), piece.tokens.begin(),
                         piece.tokens.end());
    seen_->steps.push_back(piece.step);
    seen_->cached_tokens = piece.cached_tokens;
  }
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override {
    ++seen_->num_finishes;
    seen_->status = status;
    seen_->report = report;
  }

 private:
  Seen* const seen_;
};

class ToyCluster {
 public:
  static constexpr absl::Duration kDraftTimeout = absl::Milliseconds(50);

  explicit ToyCluster(int num_drafters, Coordinator::Options options = {},
                      bool trusted = false)
      : verifier(&executor, target) {
    RegisterMergePolicies(policies_);
    for (int i = 0; i < num_drafters; ++i) {
      drafters.push_back(std::make_unique<FakeDraftEndpoint>(
          &executor,
          [this](const std::vector<TokenId>& text, const DraftBudget& budget) {
            return target.PerfectChain(
                text, std::min(budget.max_depth, budget.max_nodes));
          }));
      options.drafters.push_back({.name = absl::StrCat("d", i),
                                  .endpoint = drafters[i].get(),
                                  .info =
                                      [drafter = drafters[i].get()] {
                                        return DrafterInfo{
                                            .features = drafter->wanted,
                                            .cpu_group = drafter->cpu_group,
                                            .supports_lookahead =
                                                drafter->supports_lookahead,
                                            .device_id = drafter->device_id,
                                            .ranks = drafter->ranks};
                                      },
                                  .trusted = trusted});
    }
    options.executor = &executor;
    if (options.verifier == nullptr) options.verifier = &verifier;
    if (options.verifier_info == nullptr) {
      options.verifier_info = [this] { return info; };
    }
    if (options.policies == nullptr) options.policies = &policies_;
    options.metrics = &metrics;
    options.model = "toy";
    options.epoch = 7;
    options.draft_timeout = kDraftTimeout;
    auto made = Coordinator::Create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status();
    coordinator = *std::move(made);
  }

  static VerifierInfo ToyVerifierInfo() {
    VerifierInfo info;
    info.model = {.name = "toy", .vocab_size = 50, .tokenizer_fingerprint = 1};
    info.max_context = 1000;
    info.max_tree_nodes = 64;
    info.rules = {"walk"};
    info.eos_token_ids = {0};
    info.shape = ToyTarget::kShape;
    return info;
  }

  // Asks every drafter in every round and waits for it.
  static GenerationRequest Request(int64_t max_tokens = 20) {
    GenerationRequest request;
    request.request_id = "r";
    request.prompt = {3, 1, 4, 1, 5};
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.speculation.strategy = "union";
    return request;
  }

  Coordinator::Ticket Start(GenerationRequest request, Seen* seen) {
    return coordinator->Start(std::move(request),
                              std::make_unique<SeenSink>(seen));
  }

  // Runs a request to its end, an hour at most.
  Seen Run(GenerationRequest request) {
    Seen seen;
    Start(std::move(request), &seen);
    executor.AdvanceBy(absl::Hours(1));
    EXPECT_EQ(seen.num_finishes, 1);
    ExpectNothingOpen();
    return seen;
  }

  std::vector<TokenId> PlainText(const GenerationRequest& request) const {
    std::vector<TokenId> stop = request.stop_token_ids;
    if (!request.ignore_eos) {
      stop.insert(stop.end(), info->eos_token_ids.begin(),
                  info->eos_token_ids.end());
    }
    return target.PlainText(request.prompt, *request.max_tokens, stop);
  }

  void ExpectNothingOpen() const {
    EXPECT_EQ(coordinator->Load().running, 0);
    EXPECT_EQ(coordinator->Load().queued, 0);
    EXPECT_EQ(verifier.num_open(), 0);
    for (const auto& drafter : drafters) EXPECT_EQ(drafter->num_open(), 0);
  }

  FakeExecutor executor;
  const ToyTarget target = {};
  std::optional<VerifierInfo> info = ToyVerifierInfo();
  FakeVerifyEndpoint verifier;
  std::vector<std::unique_ptr<FakeDraftEndpoint>> drafters;
  prometheus::Registry metrics;
  std::unique_ptr<Coordinator> coordinator;

 private:
  Registry<MergePolicy> policies_{"strategy"};
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_TOY_CLUSTER_H_
