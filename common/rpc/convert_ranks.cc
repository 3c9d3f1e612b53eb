#include "common/rpc/convert_ranks.h"

#include "common/base/status_macros.h"
#include "common/rpc/convert_fields.h"

namespace espalier {

v1::RankNeed ToProto(const RankNeed& need) {
  v1::RankNeed message;
  message.set_greedy(static_cast<uint32_t>(need.greedy));
  message.set_sampled(static_cast<uint32_t>(need.sampled));
  message.set_prompt_rows(static_cast<uint32_t>(need.prompt_rows));
  return message;
}

absl::StatusOr<RankNeed> FromProto(const v1::RankNeed& message) {
  RETURN_IF_ERROR(
      CheckAtMost("ranks.greedy", message.greedy(), uint64_t{kMaxRanksTop}));
  RETURN_IF_ERROR(
      CheckAtMost("ranks.sampled", message.sampled(), uint64_t{kMaxRanksTop}));
  RETURN_IF_ERROR(CheckAtMost("ranks.prompt_rows", message.prompt_rows(),
                              uint64_t{kMaxPromptRanks}));
  return RankNeed{.greedy = static_cast<int32_t>(message.greedy()),
                  .sampled = static_cast<int32_t>(message.sampled()),
                  .prompt_rows = static_cast<int32_t>(message.prompt_rows())};
}

v1::RanksRequest ToProto(const RanksRequest& request) {
  v1::RanksRequest message;
  message.set_top(static_cast<uint32_t>(request.top));
  message.set_prompt_rows(static_cast<uint32_t>(request.prompt_rows));
  return message;
}

absl::StatusOr<RanksRequest> FromProto(const v1::RanksRequest& message) {
  RETURN_IF_ERROR(
      CheckAtMost("ranks.top", message.top(), uint64_t{kMaxRanksTop}));
  RETURN_IF_ERROR(CheckAtMost("ranks.prompt_rows", message.prompt_rows(),
                              uint64_t{kMaxPromptRanks}));
  return RanksRequest{
      .top = static_cast<int32_t>(message.top()),
      .prompt_rows = static_cast<int32_t>(message.prompt_rows())};
}

v1::TokenRanks ToProto(const TokenRanks& ranks) {
  v1::TokenRanks message;
  message.set_top(static_cast<uint32_t>(ranks.top));
  message.mutable_context()->Add(ranks.contexts.begin(), ranks.contexts.end());
  message.mutable_token()->Add(ranks.tokens.begin(), ranks.tokens.end());
  message.mutable_log_prob()->Add(ranks.log_probs.begin(),
                                  ranks.log_probs.end());
  return message;
}

absl::StatusOr<TokenRanks> FromProto(const v1::TokenRanks& message) {
  RETURN_IF_ERROR(
      CheckAtMost("ranks.top", message.top(), uint64_t{kMaxRanksTop}));
  TokenRanks ranks = {
      .top = static_cast<int32_t>(message.top()),
      .log_probs = {message.log_prob().begin(), message.log_prob().end()}};
  ASSIGN_OR_RETURN(ranks.contexts,
                   Int32Column("ranks.context", message.context()));
  ASSIGN_OR_RETURN(ranks.tokens, Int32Column("ranks.token", message.token()));
  return ranks;
}

}  // namespace espalier
