#include "verifier/verifier_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/feature_chunks.h"

namespace espalier::verifier {
namespace {

using Streams = ServerStreams<VerifyWire>;

// The request, if the model can make sense of it.
absl::StatusOr<VerifyRequest> Read(const v1::VerifyTree& message,
                                   const VerifierInfo& info) {
  ASSIGN_OR_RETURN(VerifyRequest request, FromProto(message));
  RETURN_IF_ERROR(CheckTokens(request.update.new_tokens, info.model));
  RETURN_IF_ERROR(request.tree.Validate({.max_nodes = info.max_tree_nodes,
                                         .max_depth = info.max_tree_nodes,
                                         .vocab_size = info.model.vocab_size}));
  return request;
}

void Handle(VerifyEndpoint& endpoint, const VerifierInfo& info,
            const v1::VerifyRequest& message, Streams::Reply reply) {
  auto request = Read(message.verify(), info);
  if (!request.ok()) {
    reply(request.status());
    return;
  }
  endpoint.Verify(
      *std::move(request), absl::Now() + TimeBudget(message.verify()),
      [reply = std::move(reply)](absl::StatusOr<Verdict> verdict) mutable {
        if (!verdict.ok()) {
          reply(verdict.status());
          return;
        }
        v1::VerifyResponse response;
        *response.mutable_verdict() = ToProto(*verdict);
        reply(std::move(response),
              ToParts<v1::VerifyResponse>(verdict->features));
      });
}

}  // namespace

VerifierService::VerifierService(VerifyEndpoint& endpoint,
                                 const VerifierInfo& info)
    : streams_({.model = info.model,
                .hello = ToProto(info),
                .handle =
                    [&endpoint, info](
                        const v1::VerifyRequest& message,
                        const std::vector<v1::VerifyRequest>& /*parts*/,
                        Streams::Reply reply) {
                      Handle(endpoint, info, message, std::move(reply));
                    },
                .end_sequence =
                    [&endpoint](SequenceId sequence) {
                      endpoint.EndSequence(sequence);
                    }}) {}

grpc::ServerBidiReactor<v1::VerifyRequest, v1::VerifyResponse>*
VerifierService::Verify(grpc::CallbackServerContext* /*context*/) {
  return streams_.Open();
}

}  // namespace espalier::verifier
