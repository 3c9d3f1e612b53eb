#ifndef ESPALIER_COORDINATOR_VLLM_VLLM_REQUEST_H_
#define ESPALIER_COORDINATOR_VLLM_VLLM_REQUEST_H_

#include "absl/status/statusor.h"
#include "espalier/v1/inference.pb.h"
#include "vllm_engine.pb.h"

namespace espalier::coordinator {

// The request in our API, with vLLM's meaning of fields that are unset or 0:
// temperature unset is 1; top_p 0, repetition_penalty 0 and n 0 are 1;
// max_tokens unset is what fits the context. Values are checked where requests
// of our own API are. A FieldError (request_errors.h) names a field that this
// server does not implement.
absl::StatusOr<v1::GenerateRequest> FromVllm(
    const vllm::grpc::engine::GenerateRequest& request);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VLLM_VLLM_REQUEST_H_
