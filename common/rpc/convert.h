// Converts between protobuf messages and structs. FromProto validates what
// comes from outside: columns of unequal length, numbers that do not fit and
// sampling parameters out of range are INVALID_ARGUMENT, and nothing is
// allocated for a size that is only claimed. Texts are bounded and made
// printable. Checks that need the model (token below vocab_size, shape of the
// tree) are left to TokenTree::Validate and the service.
#ifndef ESPALIER_COMMON_RPC_CONVERT_H_
#define ESPALIER_COMMON_RPC_CONVERT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/speculation/messages.h"
#include "common/speculation/token_tree.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/types.pb.h"
#include "espalier/v1/verifier.pb.h"

namespace espalier {

// The version in CoordinatorHello and its answers. It is raised when old peers
// must be refused.
inline constexpr uint32_t kProtocolVersion = 2;

v1::TokenTree ToProto(const TokenTree& tree);
absl::StatusOr<TokenTree> FromProto(const v1::TokenTree& message);

// FieldErrors (request_errors.h).
absl::StatusOr<GrammarSpec> FromProto(const v1::StructuredOutput& message);

v1::SequenceUpdate ToProto(const SequenceUpdate& update);
absl::StatusOr<SequenceUpdate> FromProto(const v1::SequenceUpdate& message);

// `time_budget` is clamped to the range of the field.
v1::Propose ToProto(const ProposeRequest& request, absl::Duration time_budget);
absl::StatusOr<ProposeRequest> FromProto(const v1::Propose& message);
absl::Duration TimeBudget(const v1::Propose& message);

v1::Proposal ToProto(const Proposal& proposal);
absl::StatusOr<Proposal> FromProto(const v1::Proposal& message);

// An infinite `time_budget` means no limit.
v1::VerifyTree ToProto(const VerifyRequest& request,
                       absl::Duration time_budget);
absl::StatusOr<VerifyRequest> FromProto(const v1::VerifyTree& message);
absl::Duration TimeBudget(const v1::VerifyTree& message);

v1::VerifyResult ToProto(const VerifyResult& verify_result);
absl::StatusOr<VerifyResult> FromProto(const v1::VerifyResult& message);

v1::FeatureRing ToProto(const FeatureRingInfo& ring);
absl::StatusOr<FeatureRingInfo> FromProto(const v1::FeatureRing& message);

v1::StoredSegments ToProto(const StoredSegments& stored);
absl::StatusOr<StoredSegments> FromProto(const v1::StoredSegments& message);

v1::StoredFeatures ToProto(const StoredFeatures& stored);
absl::StatusOr<StoredFeatures> FromProto(const v1::StoredFeatures& message);

v1::EndSequence ToProto(SequenceId sequence);
SequenceId FromProto(const v1::EndSequence& message);

v1::ModelIdentity ToProto(const ModelIdentity& identity);
absl::StatusOr<ModelIdentity> FromProto(const v1::ModelIdentity& message);

v1::DrafterHello ToProto(const DrafterInfo& info);
absl::StatusOr<DrafterInfo> FromProto(const v1::DrafterHello& message);

v1::VerifierHello ToProto(const VerifierInfo& info);
absl::StatusOr<VerifierInfo> FromProto(const v1::VerifierHello& message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONVERT_H_
