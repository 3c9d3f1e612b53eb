// A server with engines that the test controls, and endpoints connected to it.
#ifndef ESPALIER_TESTS_COMMON_RPC_REMOTE_ENDPOINT_FIXTURE_H_
#define ESPALIER_TESTS_COMMON_RPC_REMOTE_ENDPOINT_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/notification.h"
#include "common/rpc/remote_draft_endpoint.h"
#include "common/rpc/remote_verify_endpoint.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/common/rpc/fake_engines.h"
#include "tests/common/rpc/server_fixture.h"

namespace espalier {

// The answer of one call; a test can wait for it.
template <typename T>
class Future {
 public:
  Done<T> done() {
    return [state = state_](absl::StatusOr<T> result) {
      state->result = std::move(result);
      state->ready.Notify();
    };
  }
  bool ready() const { return state_->ready.HasBeenNotified(); }
  absl::StatusOr<T> Get() const {
    if (!state_->ready.WaitUntil(Generous())) {
      return absl::DeadlineExceededError("the test waited in vain");
    }
    return state_->result;
  }

 private:
  struct State {
    Notification ready;
    absl::StatusOr<T> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class RemoteEndpointTest : public testing::TestWithParam<const char*> {
 protected:
  // "unix" or a TCP host.
  std::string Address() const {
    return std::string(GetParam()) == "unix" ? SocketAddress() : GetParam();
  }

  void StartServer() { StartServer({.address = Address()}); }
  void StartServer(const TestServer::Options& options) {
    server_.emplace(draft_engine_, verify_engine_, options);
    address_ = server_->address();
  }

  PeerOptions Options() {
    return {.name = "peer",
            .address = address_,
            .model = TestModel(),
            .registry = registry_,
            .min_backoff = absl::Milliseconds(5),
            .max_backoff = absl::Milliseconds(50),
            .refused_backoff = absl::Milliseconds(50)};
  }

  std::unique_ptr<RemoteDraftEndpoint> ConnectDrafter() {
    auto endpoint = std::make_unique<RemoteDraftEndpoint>(Options());
    EXPECT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
    return endpoint;
  }
  std::unique_ptr<RemoteVerifyEndpoint> ConnectVerifier() {
    auto endpoint = std::make_unique<RemoteVerifyEndpoint>(Options());
    EXPECT_TRUE(endpoint->AwaitState(PeerState::kReady, Generous()));
    return endpoint;
  }

  static Future<Proposal> Propose(DraftEndpoint& endpoint, uint64_t sequence,
                                  int64_t max_nodes = 3) {
    Future<Proposal> future;
    endpoint.Propose({.update = TestUpdate(sequence),
                      .budget = {.max_nodes = max_nodes, .max_depth = 8}},
                     Generous(), nullptr, future.done());
    return future;
  }

  // Returns the reason for which a peer with this info is refused.
  std::string RefusalOf(const DrafterInfo& info) {
    StartServer({.address = Address(), .drafter = info});
    RemoteDraftEndpoint endpoint(Options());
    EXPECT_TRUE(endpoint.AwaitState(PeerState::kRefused, Generous()));
    EXPECT_EQ(Propose(endpoint, 1).Get().status().code(),
              absl::StatusCode::kUnavailable);
    return endpoint.status().reason;
  }

  FakeDraftEngine draft_engine_;
  FakeVerifyEngine verify_engine_;
  prometheus::Registry registry_;
  std::optional<TestServer> server_;
  std::string address_;
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_RPC_REMOTE_ENDPOINT_FIXTURE_H_
