// A drafter's service, and streams that our clients never open.
#ifndef ESPALIER_TESTS_COMMON_RPC_SERVER_STREAMS_FIXTURE_H_
#define ESPALIER_TESTS_COMMON_RPC_SERVER_STREAMS_FIXTURE_H_

#include <memory>
#include <string>

#include "common/rpc/access_token.h"
#include "common/rpc/convert.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/wire.h"
#include "espalier/v1/drafter.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"
#include "tests/common/rpc/server_fixture.h"

namespace espalier {

class ServerStreamsTest : public testing::Test {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::DraftRequest, v1::DraftResponse>;

  // A blocking stream, after the hello.
  struct Client {
    std::unique_ptr<grpc::ClientContext> context =
        std::make_unique<grpc::ClientContext>();
    std::unique_ptr<Stream> stream;

    v1::DraftResponse Ask(const v1::DraftRequest& request) {
      v1::DraftResponse response;
      EXPECT_TRUE(stream->Write(request));
      EXPECT_TRUE(stream->Read(&response));
      return response;
    }
    ~Client() {
      if (context) context->TryCancel();
      if (stream) (void)stream->Finish();
    }
    Client() = default;
    Client(Client&&) = default;
  };

  // Shows the token unless it is empty.
  Client Open(const char* token = "") {
    Client client;
    AccessToken(token).ShowOn(*client.context);
    client.stream = stub_->Draft(client.context.get());
    return client;
  }
  Client OpenWithHello(uint64_t epoch = 9) {
    Client client = Open();
    EXPECT_TRUE(client.Ask(Hello(epoch)).has_hello());
    return client;
  }

  static v1::DraftRequest Hello(uint64_t epoch = 9) {
    v1::DraftRequest request;
    request.set_request_id(1);
    *request.mutable_hello() = MakeCoordinatorHello(TestModel(), epoch);
    return request;
  }
  static v1::DraftRequest Propose(uint64_t id, uint64_t sequence) {
    v1::DraftRequest request;
    request.set_request_id(id);
    *request.mutable_propose() =
        ToProto({.update = TestUpdate(sequence), .budget = {.max_nodes = 1}},
                absl::Seconds(60));
    return request;
  }

  // Serves another drafter, to which stub_ leads from then on.
  absl::StatusOr<std::unique_ptr<ServerRunner>> Serve(PeerService& service) {
    v1::ServerConfig config;
    config.add_listen("127.0.0.1:0");
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Drafter", service.calls()}},
         .registry = std::make_shared<prometheus::Registry>()});
    if (runner.ok()) {
      stub_ = v1::Drafter::NewStub(NewPeerChannel((*runner)->addresses()[0]));
    }
    return runner;
  }

  // Returns the status of a stream that is expected to end after `first`.
  grpc::Status EndAfter(const v1::DraftRequest& first) {
    grpc::ClientContext context;
    auto stream = stub_->Draft(&context);
    stream->Write(first);
    v1::DraftResponse response;
    EXPECT_FALSE(stream->Read(&response));
    return stream->Finish();
  }

  static void ExpectFailure(const v1::DraftResponse& response, uint64_t id,
                            absl::StatusCode code) {
    EXPECT_EQ(response.request_id(), id);
    ASSERT_TRUE(response.has_failure());
    EXPECT_EQ(response.failure().code(), static_cast<int>(code))
        << response.failure().message();
  }

  FakeDraftEngine draft_engine_;
  FakeVerifyEngine verify_engine_;
  TestServer server_{
      draft_engine_, verify_engine_, {.address = SocketAddress()}};
  std::unique_ptr<v1::Drafter::Stub> stub_ =
      v1::Drafter::NewStub(NewPeerChannel(server_.address()));
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_RPC_SERVER_STREAMS_FIXTURE_H_
