#ifndef ESPALIER_COMMON_RPC_STATUS_CONVERT_H_
#define ESPALIER_COMMON_RPC_STATUS_CONVERT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "espalier/v1/types.pb.h"
#include "grpcpp/support/status.h"

namespace espalier {

// A peer's text, made safe to log and show: bounded, without control
// characters. FromGrpcStatus and FromFailure apply it.
std::string PeerText(absl::string_view text);

// ErrorInfo.domain of our errors.
inline constexpr char kErrorDomain[] = "espalier";

// Codes are the same in both types. Details of request_errors.h are sent as
// google.rpc.BadRequest, RetryInfo and ErrorInfo in grpc-status-details-bin.
// Every error has an ErrorInfo.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// The failure of one message on a stream. Keeps the held length of a
// StaleBaseError. REQUIRES: `status` is not OK.
v1::Failure ToFailure(const absl::Status& status);
// Never OK, whatever the peer sent.
absl::Status FromFailure(const v1::Failure& failure);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_STATUS_CONVERT_H_
