// Hidden states from the target to a drafter over real sockets: the received
// bits are those that the model computes for these positions.

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/model/native/native_model.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/rpc/server_runner.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/rounds/coordinator.h"
#include "drafter/engine/draft_engine.h"
#include "drafter/engine/host_feature_store.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/finished_generation.h"
#include "tests/testing/tiny_model.h"
#include "verifier/engine/verify_engine.h"
#include "verifier/rules/verification_rules.h"

namespace espalier {
namespace {

using Text = std::vector<TokenId>;

absl::Time Generous() { return absl::Now() + absl::Seconds(120); }

std::unique_ptr<LanguageModel> TinyTarget() {
  static const std::string* const folder = [] {
    auto* name = new std::string(::testing::TempDir() + "/feature_stream_test");
    testing::WriteTinyLlama(*name);
    return name;
  }();
  auto model =
      LoadNativeModel({.folder = *folder, .threads = 1, .max_context = 250});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// What a drafter saw.
struct Sightings {
  int64_t rounds = 0;    // with a tree
  int64_t complete = 0;  // of them, with all features there can be
  int64_t checked_rows = 0;
  int64_t first_rows = -1;    // that came first
  int64_t first_length = -1;  // of the text when they came
};

// Drafts the target's next tokens, every other time with a wrong second token,
// and computes the features that it receives itself.
class CheckingDrafter final : public drafter::Drafter {
 public:
  explicit CheckingDrafter(Sightings* seen) : seen_(*seen) {}

  static FeatureContract Contract() {
    return {.taps = {0, 1, 3}, .hidden_size = Hidden()};
  }
  drafter::FeatureStore* features() override { return &features_; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const drafter::SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const drafter::SequenceView& view : batch) {
      Check(view);
      trees.push_back(DraftOne(view));
    }
    return trees;
  }
  void Forget(SequenceId /*id*/) override {}

 private:
  static int64_t Hidden() {
    static const int64_t hidden = TinyTarget()->info().config.hidden_size;
    return hidden;
  }

  // One pass over the whole text.
  struct Computed {
    TokenId next = 0;
    std::vector<uint16_t> features;  // [tokens * width]
  };
  Computed Compute(absl::Span<const TokenId> text) {
    const FeatureContract contract = Contract();
    std::vector<int32_t> parents(text.size());
    std::iota(parents.begin(), parents.end(), kPrefixParent);
    Computed computed;
    computed.features.resize(text.size() * contract.width());
    const CacheId cache = model_->NewSequence();
    const SequenceRows rows = {.cache = cache,
                               .tokens = text,
                               .parents = parents,
                               .num_logit_rows = 1,
                               .taps = contract.taps};
    auto logits = model_->Forward({&rows, 1});
    EXPECT_TRUE(logits.ok()) << logits.status();
    const auto row = (*logits)->Row(0);
    computed.next = static_cast<TokenId>(
        std::max_element(row.begin(), row.end()) - row.begin());
    std::vector<int32_t> all(text.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_TRUE(
        model_->Keep(cache, all, absl::MakeSpan(computed.features)).ok());
    model_->Release(cache);
    return computed;
  }

  void Check(const drafter::SequenceView& view) {
    const drafter::FeatureRange& held = view.features;
    const int64_t root = static_cast<int64_t>(view.tokens.size()) - 1;
    ++seen_.rounds;
    if (held.empty()) return;
    if (seen_.first_rows < 0) {
      seen_.first_rows = held.size();
      seen_.first_length = root + 1;
    }
    EXPECT_LE(held.end, root);
    if (held.begin == 0 && held.end == root) ++seen_.complete;
    const Computed computed = Compute(view.tokens);
    const int64_t width = Contract().width();
    EXPECT_TRUE(features_.Rows(view.id, held) ==
                absl::MakeConstSpan(computed.features)
                    .subspan(held.begin * width, held.size() * width))
        << "after " << root + 1 << " tokens";
    seen_.checked_rows += held.size();
  }

  TokenTree DraftOne(const drafter::SequenceView& view) {
    TokenTree tree = TokenTree::RootOnly(view.tokens.back());
    Text text(view.tokens.begin(), view.tokens.end());
    for (int32_t i = 0; i < std::min<int64_t>(3, view.budget.max_depth); ++i) {
      TokenId next = Compute(text).next;
      if (i == 1 && seen_.rounds % 2 == 0) next = (next + 1) % 256;
      tree.Add(i, next, -1.0f * static_cast<float>(i + 1));
      text.push_back(next);
    }
    return tree;
  }

  Sightings& seen_;
  drafter::HostFeatureStore features_{Contract()};
  const std::unique_ptr<LanguageModel> model_ = TinyTarget();
};

ModelIdentity Identity() {
  return {.name = "tiny",
          .vocab_size = testing::kTinyVocab,
          .tokenizer_fingerprint = 1};
}

std::string Address(const std::string& name) {
  return absl::StrCat("unix:/tmp/espalier_", getpid(), "_features_", name);
}

std::unique_ptr<ServerRunner> Serve(const std::string& name,
                                    const std::string& service_name,
                                    grpc::Service* service) {
  v1::ServerConfig config;
  config.add_listen(Address(name));
  auto runner =
      ServerRunner::Start({.config = config,
                           .services = {{service_name, service}},
                           .registry = std::make_shared<prometheus::Registry>(),
                           .drain = [](absl::Time) {}});
  EXPECT_TRUE(runner.ok()) << runner.status();
  return *std::move(runner);
}

// A drafter process, as far as anybody outside can tell.
class DrafterServer {
 public:
  explicit DrafterServer(Sightings* seen)
      : engine_({.name = "checking", .vocab_size = testing::kTinyVocab},
                std::make_unique<CheckingDrafter>(seen),
                std::make_unique<SerialExecutor>("drafter"),
                drafter::MakeDrafterMetrics(metrics_, "checking")),
        service_(NewDrafterService(engine_,
                                   {.name = "checking",
                                    .type = "checking",
                                    .model = Identity(),
                                    .max_nodes = 16,
                                    .max_depth = 8,
                                    .features = CheckingDrafter::Contract()})),
        runner_(Serve("drafter", "espalier.v1.Drafter", service_->calls())) {}

 private:
  prometheus::Registry metrics_;
  drafter::DraftEngine engine_;
  std::unique_ptr<PeerService> service_;
  std::unique_ptr<ServerRunner> runner_;  // first to go
};

class VerifierServer {
 public:
  VerifierServer()
      : engine_(MakeEngine()),
        service_(NewVerifierService(*engine_, engine_->info())) {
    runner_ = Serve("verifier", "espalier.v1.Verifier", service_->calls());
  }

 private:
  std::unique_ptr<verifier::VerifyEngine> MakeEngine() {
    Registry<verifier::VerificationRule> rules("rule");
    verifier::RegisterVerificationRules(rules);
    // Few rows, so that the prompt takes several passes.
    auto engine = verifier::VerifyEngine::Create(
        {.identity = Identity(), .epoch = 5, .max_batch_rows = 16},
        TinyTarget(), std::make_unique<SerialExecutor>("verifier"), rules,
        metrics_);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  prometheus::Registry metrics_;
  std::unique_ptr<verifier::VerifyEngine> engine_;
  std::unique_ptr<PeerService> service_;
  std::unique_ptr<ServerRunner> runner_;  // first to go
};

// Leaves the drafter out of every fifth round.
class SkippingEndpoint final : public DraftEndpoint {
 public:
  explicit SkippingEndpoint(DraftEndpoint* endpoint) : endpoint_(*endpoint) {}

  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override {
    if (++requests_ % 5 == 0) {
      std::move(done)(absl::InternalError("left out"));
    } else {
      endpoint_.Propose(std::move(request), deadline, std::move(on_partial),
                        std::move(done));
    }
  }
  void EndSequence(SequenceId sequence) override {
    endpoint_.EndSequence(sequence);
  }

 private:
  DraftEndpoint& endpoint_;
  int64_t requests_ = 0;
};

// Hands the text over when it is finished; `pause` runs once, in between.
class FeaturesTest : public ::testing::Test {
 protected:
  FeaturesTest() {
    coordinator::RegisterMergePolicies(policies_);
    EXPECT_TRUE(drafter_.AwaitState(PeerState::kReady, Generous()));
    EXPECT_TRUE(verifier_.AwaitState(PeerState::kReady, Generous()));
    auto made = coordinator::Coordinator::Create(
        {.executor = &executor_,
         .drafters = {{.name = "checking",
                       .endpoint = &skipping_,
                       .info = [this] { return drafter_.info(); }}},
         .verifier = &verifier_,
         .verifier_info = [this] { return verifier_.info(); },
         .policies = &policies_,
         .metrics = &metrics_,
         .model = "tiny",
         .draft_timeout = absl::Seconds(120)});
    EXPECT_TRUE(made.ok()) << made.status();
    coordinator_ = *std::move(made);
  }
  ~FeaturesTest() override { testing::ShutDownAndWait(*coordinator_); }

  PeerOptions Peer(const std::string& name) {
    return {.name = name,
            .address = Address(name),
            .model = Identity(),
            .registry = metrics_,
            .min_backoff = absl::Milliseconds(5)};
  }

  void Run(bool speculate, testing::FinishedGeneration& result,
           std::function<void()> pause = nullptr) {
    coordinator::GenerationRequest request;
    request.speculation.max_nodes = 16;
    request.request_id = "r";
    for (TokenId i = 0; i < 50; ++i) request.prompt.push_back(i * 7 % 256);
    request.max_tokens = 150;
    request.ignore_eos = true;
    request.speculation.enabled = speculate;
    coordinator_->Start(std::move(request),
                        std::make_unique<testing::FinishedGenerationSink>(
                            &result, [pause](const Text& text) mutable {
                              if (text.size() <= 60 || !pause) return;
                              std::exchange(pause, nullptr)();
                            }));
    EXPECT_TRUE(result.finished.WaitUntil(Generous()));
    EXPECT_TRUE(result.status.ok()) << result.status;
  }

  // The round waits for it: the text goes on when the new one is there.
  void RestartDrafter() {
    drafter_server_.reset();
    EXPECT_TRUE(drafter_.AwaitState(PeerState::kConnecting, Generous()));
    drafter_server_ = std::make_unique<DrafterServer>(&second_);
    EXPECT_TRUE(drafter_.AwaitState(PeerState::kReady, Generous()));
  }

  Sightings first_, second_;  // before and after the restart
  prometheus::Registry metrics_;
  VerifierServer verifier_server_;
  std::unique_ptr<DrafterServer> drafter_server_ =
      std::make_unique<DrafterServer>(&first_);
  RemoteVerifyEndpoint verifier_{Peer("verifier")};
  RemoteDraftEndpoint drafter_{Peer("drafter")};
  SkippingEndpoint skipping_{&drafter_};
  SerialExecutor executor_{"coordinator"};
  Registry<coordinator::MergePolicy> policies_{"strategy"};
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

TEST_F(FeaturesTest, ArriveAsTheTargetComputesThem) {
  testing::FinishedGeneration plain, drafted;
  Run(/*speculate=*/false, plain);
  EXPECT_EQ(first_.rounds, 0);
  Run(/*speculate=*/true, drafted, [this] { RestartDrafter(); });
  EXPECT_EQ(drafted.text, plain.text);
  EXPECT_GT(drafted.report.spec.num_accepted_draft_tokens, 40);

  // None in the first round: the target has not seen the prompt yet.
  EXPECT_GT(first_.rounds, 10);
  EXPECT_EQ(first_.complete, first_.rounds - 1);
  EXPECT_GE(first_.first_rows, 50);
  // The new one is given all of them at once.
  EXPECT_GT(second_.rounds, 10);
  EXPECT_EQ(second_.complete, second_.rounds);
  EXPECT_GT(second_.first_rows, 110);
  EXPECT_EQ(second_.first_rows, second_.first_length - 1);
}

}  // namespace
}  // namespace espalier
