// A drafter and a verifier with fake engines, in this process. A test can stop
// them and start them again at the same address.
#ifndef ESPALIER_TESTS_COMMON_RPC_SERVER_FIXTURE_H_
#define ESPALIER_TESTS_COMMON_RPC_SERVER_FIXTURE_H_

#include <unistd.h>

#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {

// Returns an address that is short enough for a Unix socket and unique to this
// test.
inline std::string SocketAddress() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return "unix:/tmp/espalier_" + std::to_string(getpid()) + "_" +
         std::to_string(std::hash<std::string>()(test->name()) % 100'000);
}

class TestServer {
 public:
  struct Options {
    std::string address;
    DrafterInfo drafter = TestDrafterInfo();
    VerifierInfo verifier = TestVerifierInfo();
  };

  TestServer(FakeDraftEngine& drafter, FakeVerifyEngine& verifier,
             const Options& options)
      : drafter_(NewDrafterService(drafter, options.drafter)),
        verifier_(NewVerifierService(verifier, options.verifier)) {
    v1::ServerConfig config;
    config.add_listen(options.address);
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Drafter", drafter_->calls()},
                      {"espalier.v1.Verifier", verifier_->calls()}},
         .registry = std::make_shared<prometheus::Registry>(),
         .drain = [this](absl::Time deadline) {
           drafter_->Drain(deadline);
           verifier_->Drain(deadline);
         }});
    if (!runner.ok()) ADD_FAILURE() << runner.status();
    ESPALIER_CHECK(runner.ok());
    runner_ = *std::move(runner);
  }

  const std::string& address() const { return runner_->addresses()[0]; }
  ServerRunner& runner() { return *runner_; }

 private:
  const std::unique_ptr<PeerService> drafter_;
  const std::unique_ptr<PeerService> verifier_;
  std::unique_ptr<ServerRunner> runner_;  // destroyed first
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_RPC_SERVER_FIXTURE_H_
