#ifndef ESPALIER_COMMON_RPC_CONVERT_RANKS_H_
#define ESPALIER_COMMON_RPC_CONVERT_RANKS_H_

#include "absl/status/statusor.h"
#include "common/speculation/token_ranks.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/verifier.pb.h"

namespace espalier {

// Errors of FromProto are INVALID_ARGUMENT and name the field. The lengths of
// columns are checked where they are used (CheckRanks).
v1::RankNeed ToProto(const RankNeed& need);
absl::StatusOr<RankNeed> FromProto(const v1::RankNeed& message);
v1::RanksRequest ToProto(const RanksRequest& request);
absl::StatusOr<RanksRequest> FromProto(const v1::RanksRequest& message);
v1::TokenRanks ToProto(const TokenRanks& ranks);
absl::StatusOr<TokenRanks> FromProto(const v1::TokenRanks& message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONVERT_RANKS_H_
