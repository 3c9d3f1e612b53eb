#include <algorithm>
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
#include "espalier/v1/drafter.grpc.pb.h"

namespace espalier {
namespace {

using DraftStreams = ServerStreams<DraftWire>;

v1::DraftResponse Write(const Proposal& proposal) {
  v1::DraftResponse response;
  *response.mutable_proposal() = ToProto(proposal);
  return response;
}

void Handle(DraftEndpoint& endpoint, const DrafterInfo& info,
            const v1::DraftRequest& message,
            const std::vector<v1::DraftRequest>& parts,
            DraftStreams::Reply reply) {
  auto request = ReadPropose(message.propose(), parts, info);
  if (!request.ok()) {
    reply(request.status());
    return;
  }
  const auto shared = std::make_shared<DraftStreams::Reply>(std::move(reply));
  endpoint.Propose(
      *std::move(request), absl::Now() + TimeBudget(message.propose()),
      [shared](const Proposal& proposal) {
        v1::DraftResponse part = Write(proposal);
        part.mutable_proposal()->set_partial(true);
        shared->SendPart(std::move(part));
      },
      [shared](absl::StatusOr<Proposal> proposal) {
        if (proposal.ok()) {
          (*shared)(Write(*proposal));
        } else {
          (*shared)(proposal.status());
        }
      });
}

class DrafterCalls final
    : public PeerService,
      public v1::Drafter::WithRawCallbackMethod_Draft<v1::Drafter::Service> {
 public:
  explicit DrafterCalls(DraftStreams::Handler handler)
      : streams_(std::move(handler)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Draft(
      grpc::CallbackServerContext* context) override {
    return streams_.Open(*context);
  }

  grpc::Service* calls() override { return this; }

  void Drain(absl::Time deadline) override { streams_.Drain(deadline); }

 private:
  DraftStreams streams_;
};

}  // namespace

absl::StatusOr<ProposeRequest> ReadPropose(
    const v1::Propose& message, const std::vector<v1::DraftRequest>& parts,
    const DrafterInfo& info) {
  ASSIGN_OR_RETURN(ProposeRequest request, FromProto(message));
  ASSIGN_OR_RETURN(request.features, FromParts(parts));
  const int64_t vocab_size = info.model.vocab_size;
  RETURN_IF_ERROR(
      CheckTokens("new_tokens", request.update.new_tokens, vocab_size));
  RETURN_IF_ERROR(
      CheckTokens("lookahead_tokens", request.lookahead, vocab_size));
  request.budget.max_nodes = std::min(request.budget.max_nodes, info.max_nodes);
  request.budget.max_depth = std::min(request.budget.max_depth, info.max_depth);
  return request;
}

std::unique_ptr<PeerService> NewDrafterService(
    DraftEndpoint& endpoint, const DrafterInfo& info,
    std::shared_ptr<const AccessGate> gate) {
  return std::make_unique<DrafterCalls>(DraftStreams::Handler{
      .gate = std::move(gate),
      .model = info.model,
      .hello = ToProto(info),
      .handle =
          [&endpoint, info](const v1::DraftRequest& message,
                            const std::vector<v1::DraftRequest>& parts,
                            DraftStreams::Reply reply) {
            Handle(endpoint, info, message, parts, std::move(reply));
          },
      .end_sequence =
          [&endpoint](SequenceId sequence) {
            endpoint.EndSequence(sequence);
          }});
}

}  // namespace espalier
