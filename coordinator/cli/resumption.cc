#include "coordinator/cli/resumption.h"

#include <algorithm>

namespace espalier::cli {

bool IsResumable(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:   // another may have room
    case grpc::StatusCode::FAILED_PRECONDITION:  // another may have the model
      return true;
    case grpc::StatusCode::CANCELLED:
      // gRPC's own, from a server that ends; ours have details.
      return status.error_details().empty();
    default:
      return false;
  }
}

v1::GenerateRequest RestOf(const v1::GenerateRequest& request,
                           const std::vector<Answer>& answers) {
  v1::GenerateRequest rest = request;
  const bool begun = std::any_of(answers.begin(), answers.end(),
                                 [](auto& a) { return !a.token_ids.empty(); });
  if (!begun) return rest;
  v1::Resumption& resumption = *rest.mutable_resumption();
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    v1::ResumedOutput& output = *resumption.add_outputs();
    output.mutable_token_ids()->Assign(answer.token_ids.begin(),
                                       answer.token_ids.end());
    output.set_finished(answer.summary.finish_reason() !=
                        v1::FINISH_REASON_UNSPECIFIED);
    if (answer.seed) rest.set_seed(*answer.seed - i);
    if (answer.origin) resumption.set_origin(*answer.origin);
  }
  return rest;
}

void BeginResumption(std::vector<Answer>& answers) {
  for (Answer& answer : answers) {
    if (answer.summary.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
      continue;
    }
    answer.first_message_tokens = 0;
    answer.resumed_tokens = static_cast<int64_t>(answer.token_ids.size());
    answer.resumptions += answer.token_ids.empty() ? 0 : 1;
  }
}

}  // namespace espalier::cli
