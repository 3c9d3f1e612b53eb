// Converters of what a round asks of the target beside tokens, and of the
// log-probabilities that it answers with.
#ifndef ESPALIER_COMMON_RPC_CONVERT_TARGET_H_
#define ESPALIER_COMMON_RPC_CONVERT_TARGET_H_

#include "absl/status/statusor.h"
#include "common/speculation/features.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/logit_adjustments.h"
#include "common/speculation/logprobs.h"
#include "espalier/v1/types.pb.h"
#include "espalier/v1/verifier.pb.h"

namespace espalier {

// Errors of FromProto are INVALID_ARGUMENT and name the field. That of a
// GrammarSpec is in convert.h.
v1::StructuredOutput ToProto(const GrammarSpec& grammar);
v1::LogitAdjustments ToProto(const LogitAdjustments& adjustments);
absl::StatusOr<LogitAdjustments> FromProto(const v1::LogitAdjustments& message);
v1::LogprobRequest ToProto(const LogprobRequest& request);
absl::StatusOr<LogprobRequest> FromProto(const v1::LogprobRequest& message);
// The lengths of columns are checked where they are used (CheckLogprobs).
v1::LogprobRows ToProto(const LogprobRows& rows);
absl::StatusOr<LogprobRows> FromProto(const v1::LogprobRows& message);
v1::FeatureRequest ToProto(const FeatureRequest& request);
absl::StatusOr<FeatureRequest> FromProto(const v1::FeatureRequest& message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONVERT_TARGET_H_
