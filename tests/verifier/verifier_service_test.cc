// The engine behind gRPC: which threads run the model, and which pass costs the
// coordinator receives.

#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "tests/testing/language_model_decorator.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

// The threads that something ran on. Thread-safe.
class ThreadSet {
 public:
  void AddThis() {
    MutexLock lock(&mutex_);
    ids_.insert(std::this_thread::get_id());
  }
  std::set<std::thread::id> ids() const {
    MutexLock lock(&mutex_);
    return ids_;
  }

 private:
  mutable Mutex mutex_;
  std::set<std::thread::id> ids_ ABSL_GUARDED_BY(mutex_);
};

// Notes the threads that it is called on.
class WatchedModel final : public LanguageModelDecorator {
 public:
  explicit WatchedModel(ThreadSet* threads)
      : LanguageModelDecorator(std::make_unique<ScriptedLanguageModel>(
            ScriptedLanguageModel::Options{})),
        threads_(*threads) {}

  CacheId NewSequence() override {
    threads_.AddThis();
    return LanguageModelDecorator::NewSequence();
  }
  void Release(CacheId cache) override {
    threads_.AddThis();
    LanguageModelDecorator::Release(cache);
  }
  int64_t Length(CacheId cache) const override {
    threads_.AddThis();
    return LanguageModelDecorator::Length(cache);
  }
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    threads_.AddThis();
    return LanguageModelDecorator::Forward(batch);
  }
  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override {
    threads_.AddThis();
    return LanguageModelDecorator::Keep(cache, path, features);
  }
  void Truncate(CacheId cache, int64_t length) override {
    threads_.AddThis();
    LanguageModelDecorator::Truncate(cache, length);
  }

 private:
  ThreadSet& threads_;
};

class VerifierServiceTest : public ::testing::Test {
 protected:
  VerifierServiceTest() {
    Registry<VerificationRule> rules("rule");
    RegisterVerificationRules(rules);
    VerifyEngine::Options options;
    options.identity.name = "script";
    // The script is faster than any clock that counts in hours.
    options.pass_costs = {{1, absl::Hours(1)}, {8, absl::Hours(1)}};
    auto executor = std::make_unique<SerialExecutor>("verifier");
    executor->Post([this] { engine_thread_.AddThis(); });
    auto engine = VerifyEngine::Create(
        options, std::make_unique<WatchedModel>(&model_threads_),
        std::move(executor), rules, metrics_);
    ESPALIER_CHECK(engine.ok());
    engine_ = *std::move(engine);
    service_ = NewVerifierService(*engine_, engine_->info());
    v1::ServerConfig config;
    config.add_listen("unix:/tmp/espalier_service_" + std::to_string(getpid()));
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Verifier", service_->calls()}},
         .registry = std::make_shared<prometheus::Registry>(),
         .drain = [this](absl::Time deadline) { service_->Drain(deadline); }});
    ESPALIER_CHECK(runner.ok());
    runner_ = *std::move(runner);
    endpoint_ = std::make_unique<RemoteVerifyEndpoint>(
        PeerOptions{.name = "verifier",
                    .address = runner_->addresses()[0],
                    .model = engine_->info().model,
                    .registry = metrics_});
    ESPALIER_CHECK(
        endpoint_->AwaitState(PeerState::kReady, absl::InfiniteFuture()));
  }

  static constexpr uint64_t kEpoch = 9;
  ThreadSet engine_thread_;
  ThreadSet model_threads_;
  prometheus::Registry metrics_;
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<PeerService> service_;
  std::unique_ptr<ServerRunner> runner_;
  std::unique_ptr<RemoteVerifyEndpoint> endpoint_;
};

TEST_F(VerifierServiceTest, OnlyTheEnginesThreadRunsTheModel) {
  ThreadSet answering;
  std::vector<std::thread> askers;
  for (uint64_t i = 0; i < 4; ++i) {
    askers.emplace_back([&, i] {
      Client client = {.id = {kEpoch, i}, .text = {1, 2, 3}};
      for (int round = 0; round < 20; ++round) {
        Notification answered;
        endpoint_->Verify(client.Request(), absl::InfiniteFuture(),
                          [&](absl::StatusOr<VerifyResult> verify_result) {
                            EXPECT_TRUE(verify_result.ok())
                                << verify_result.status();
                            if (verify_result.ok())
                              client.Commit(*verify_result);
                            answering.AddThis();
                            answered.Notify();
                          });
        answered.Wait();
      }
      endpoint_->EndSequence(client.id);
    });
  }
  for (std::thread& asker : askers) asker.join();
  endpoint_.reset();  // drops the sequences
  runner_.reset();
  engine_.reset();
  EXPECT_EQ(model_threads_.ids(), engine_thread_.ids());
  EXPECT_EQ(engine_thread_.ids().size(), 1u);
  for (const std::thread::id id : answering.ids()) {
    EXPECT_FALSE(model_threads_.ids().contains(id));
  }
}

TEST_F(VerifierServiceTest, TheCoordinatorHearsTheCostsFirstAndWithEveryRound) {
  ASSERT_EQ(endpoint_->info()->pass_costs.size(), 2u);
  EXPECT_EQ(endpoint_->info()->pass_costs[0].time, absl::Hours(1));
  Client client = {.id = {kEpoch, 1}, .text = {1, 2, 3}};
  for (int round = 0; round < 3; ++round) {
    Notification answered;
    endpoint_->Verify(client.Request(), absl::InfiniteFuture(),
                      [&](absl::StatusOr<VerifyResult> verify_result) {
                        ASSERT_TRUE(verify_result.ok())
                            << verify_result.status();
                        client.Commit(*verify_result);
                        answered.Notify();
                      });
    answered.Wait();
  }
  EXPECT_LT(endpoint_->info()->pass_costs[0].time, absl::Minutes(59));
  EXPECT_EQ(
      endpoint_->info()->pass_costs[0].time,
      absl::Floor(engine_->info().pass_costs[0].time, absl::Microseconds(1)));
}

}  // namespace
}  // namespace espalier::verifier
