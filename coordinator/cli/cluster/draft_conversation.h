#ifndef ESPALIER_COORDINATOR_CLI_CLUSTER_DRAFT_CONVERSATION_H_
#define ESPALIER_COORDINATOR_CLI_CLUSTER_DRAFT_CONVERSATION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/rpc/access_token.h"
#include "common/speculation/types.h"
#include "espalier/v1/drafter.grpc.pb.h"

namespace espalier::cli {

// A growing committed text, in the form in which a drafter is told of it.
class DraftedText {
 public:
  DraftedText(uint64_t epoch, uint64_t session, std::vector<TokenId> tokens)
      : epoch_(epoch), session_(session), tokens_(std::move(tokens)) {}

  void Append(absl::Span<const TokenId> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  // The next round's request to a drafter that holds `held` tokens.
  v1::Propose Next(int64_t held, uint32_t max_nodes, uint32_t max_depth);

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  TokenId last() const { return tokens_.back(); }
  uint64_t round() const { return round_; }
  uint64_t session() const { return session_; }

  float temperature = 0;
  uint64_t seed = 1;

 private:
  const uint64_t epoch_;
  const uint64_t session_;
  std::vector<TokenId> tokens_;
  uint64_t round_ = 0;
};

// One blocking stream to a drafter. One thread.
class DraftConversation {
 public:
  DraftConversation(v1::Drafter::Stub& stub, absl::Duration timeout,
                    const AccessToken& token);
  ~DraftConversation();

  // Errors are the drafter's final status of the stream.
  absl::StatusOr<v1::DrafterHello> Greet(const v1::CoordinatorHello& hello);
  // The complete answer, proposal or failure; partial trees before it are
  // skipped. A drafter that wants features gets synthetic ones for all
  // positions of the update.
  absl::StatusOr<v1::DraftResponse> Ask(const v1::Propose& propose);
  // Sends a message that gets no answer.
  void Tell(v1::DraftRequest request);
  // Tells the drafter that the stream ends, and reads to its end.
  absl::Status End();
  void Cancel() { context_.TryCancel(); }

 private:
  absl::StatusOr<v1::DraftResponse> Read(uint64_t request_id);

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::DraftRequest, v1::DraftResponse>>
      stream_;
  uint64_t next_id_ = 1;
  int64_t feature_width_ = 0;  // numbers per position; 0: none are wanted
  bool finished_ = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CLUSTER_DRAFT_CONVERSATION_H_
