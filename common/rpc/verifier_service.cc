#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_streams.h"
#include "common/rpc/wire.h"
#include "common/speculation/request_errors.h"
#include "espalier/v1/verifier.grpc.pb.h"

namespace espalier {
namespace {

using VerifyStreams = ServerStreams<VerifyWire>;

void Handle(VerifyEndpoint& endpoint, const VerifierInfo& info,
            const v1::VerifyRequest& message, VerifyStreams::Reply reply) {
  auto request = ReadVerify(message.verify(), info);
  if (!request.ok()) {
    reply(request.status());
    return;
  }
  endpoint.Verify(*std::move(request),
                  absl::Now() + TimeBudget(message.verify()),
                  [reply = std::move(reply)](
                      absl::StatusOr<VerifyResult> verify_result) mutable {
                    if (!verify_result.ok()) {
                      reply(verify_result.status());
                      return;
                    }
                    v1::VerifyResponse response;
                    *response.mutable_verify_result() = ToProto(*verify_result);
                    reply(std::move(response),
                          ToParts<v1::VerifyResponse>(verify_result->features));
                  });
}

class VerifierCalls final
    : public PeerService,
      public v1::Verifier::WithRawCallbackMethod_Verify<v1::Verifier::Service> {
 public:
  explicit VerifierCalls(VerifyStreams::Handler handler)
      : streams_(std::move(handler)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Verify(
      grpc::CallbackServerContext* context) override {
    return streams_.Open(*context);
  }

  grpc::Service* calls() override { return this; }

  void Drain(absl::Time deadline) override { streams_.Drain(deadline); }

 private:
  VerifyStreams streams_;
};

}  // namespace

absl::StatusOr<VerifyRequest> ReadVerify(const v1::VerifyTree& message,
                                         const VerifierInfo& info) {
  ASSIGN_OR_RETURN(VerifyRequest request, FromProto(message));
  RETURN_IF_ERROR(CheckTokens("new_tokens", request.update.new_tokens,
                              info.model.vocab_size));
  RETURN_IF_ERROR(request.tree.Validate({.max_nodes = info.max_tree_nodes,
                                         .max_depth = info.max_tree_nodes,
                                         .vocab_size = info.model.vocab_size}));
  return request;
}

std::unique_ptr<PeerService> NewVerifierService(
    VerifyEndpoint& endpoint, const VerifierInfo& info,
    std::shared_ptr<const AccessGate> gate) {
  return std::make_unique<VerifierCalls>(VerifyStreams::Handler{
      .gate = std::move(gate),
      .model = info.model,
      .hello = ToProto(info),
      .handle =
          [&endpoint, info](const v1::VerifyRequest& message,
                            const std::vector<v1::VerifyRequest>& /*parts*/,
                            VerifyStreams::Reply reply) {
            Handle(endpoint, info, message, std::move(reply));
          },
      .end_sequence =
          [&endpoint](SequenceId sequence) {
            endpoint.EndSequence(sequence);
          }});
}

}  // namespace espalier
