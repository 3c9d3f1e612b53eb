// What a client queues for a peer that hangs.
#include "common/rpc/client_stream.h"

#include <memory>
#include <optional>
#include <string>

#include "common/base/notification.h"
#include "common/rpc/peer_channel.h"
#include "common/rpc/wire.h"
#include "espalier/v1/drafter.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

// Takes a stream and reads nothing.
class HungDrafter final : public v1::Drafter::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::DraftRequest, v1::DraftResponse>* Draft(
      grpc::CallbackServerContext*) override {
    return new Reactor();
  }

 private:
  class Reactor final
      : public grpc::ServerBidiReactor<v1::DraftRequest, v1::DraftResponse> {
   public:
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }
  };
};

class ClientStreamTest : public testing::Test {
 protected:
  using Stream = ClientStream<v1::DraftRequest, v1::DraftResponse>;

  ClientStreamTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&drafter_);
    server_ = builder.BuildAndStart();
    grpc::GenericStub(NewPeerChannel("127.0.0.1:" + std::to_string(port_)))
        .PrepareBidiStreamingCall(&stream_.context(), DraftWire::kMethod, {},
                                  &stream_);
    stream_.Start(Large());
  }
  ~ClientStreamTest() override {
    stream_.Cancel();
    EXPECT_TRUE(closed_.WaitUntil(Generous()));
    server_->Shutdown();
  }

  // Returns a message; 16 of them fill what HTTP/2 takes of a stream that is
  // not read.
  static v1::DraftRequest Large() {
    v1::DraftRequest request;
    request.mutable_features()->set_data(std::string(4096, 'x'));
    return request;
  }

  int port_ = 0;
  HungDrafter drafter_;
  std::unique_ptr<grpc::Server> server_;
  Notification closed_;
  std::optional<grpc::Status> status_;
  Stream stream_{{.on_response = [](v1::DraftResponse) {},
                  .on_read_end = [] {},
                  .on_closed =
                      [this](grpc::Status status) {
                        status_ = std::move(status);
                        closed_.Notify();
                      }}};
};

TEST_F(ClientStreamTest, APeerThatReadsNothingIsGivenUp) {
  constexpr int kMaxQueued = 4096;
  for (int i = 1; i < kMaxQueued; ++i) stream_.Send(Large());
  EXPECT_FALSE(closed_.HasBeenNotified());
  // The transport may take some of these.
  for (int i = 0; i < kMaxQueued; ++i) stream_.Send(Large());
  EXPECT_TRUE(closed_.WaitUntil(Generous()));
  ASSERT_TRUE(status_);
  EXPECT_EQ(status_->error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace espalier
