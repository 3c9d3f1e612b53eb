#ifndef ESPALIER_COMMON_RPC_STATUS_CONVERT_H_
#define ESPALIER_COMMON_RPC_STATUS_CONVERT_H_

#include "absl/status/status.h"
#include "espalier/v1/types.pb.h"
#include "grpcpp/support/status.h"

namespace espalier {

// Codes are equal on both sides. What request_errors.h attached travels as
// google.rpc.BadRequest and RetryInfo in grpc-status-details-bin.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// Of one message on a stream; keeps the held length of a StaleBaseError.
// REQUIRES: not OK.
v1::Failure ToFailure(const absl::Status& status);
// Never OK, whatever the peer sent.
absl::Status FromFailure(const v1::Failure& failure);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_STATUS_CONVERT_H_
