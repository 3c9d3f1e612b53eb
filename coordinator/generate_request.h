#ifndef ESPALIER_COORDINATOR_GENERATE_REQUEST_H_
#define ESPALIER_COORDINATOR_GENERATE_REQUEST_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The model that is served, as requests name and write it. Immutable.
struct ServedModel {
  std::string name;
  const Tokenizer* tokenizer = nullptr;
  std::optional<ChatTemplate> chat_template;  // none: no chat requests
};

// What a client asks for, in tokens, with the API's defaults filled in.
// FieldError (request_errors.h): a field is missing or senseless on its own;
// what depends on the verifier or the drafters is the coordinator's to check.
// NOT_FOUND: another model.
absl::StatusOr<GenerationRequest> ParseGenerateRequest(
    const v1::GenerateRequest& request, const ServedModel& model,
    absl::Time deadline);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_GENERATE_REQUEST_H_
