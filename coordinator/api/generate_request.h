#ifndef ESPALIER_COORDINATOR_API_GENERATE_REQUEST_H_
#define ESPALIER_COORDINATOR_API_GENERATE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/session/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The served model, for parsing requests. Immutable.
struct ServedModel {
  std::string name;
  const Tokenizer* tokenizer = nullptr;
  // Null: no chat requests.
  std::shared_ptr<const ChatTemplate> chat_template = nullptr;
  std::string why_no_chat = {};
  // Limit of a prompt's text, whatever the context holds.
  int64_t max_prompt_bytes = int64_t{4} << 20;
};

// NOT_FOUND (MODEL_NOT_SERVED) unless the name is that of the served model.
absl::Status CheckModelName(absl::string_view name, const ServedModel& model);

// Parses a request except for its prompt, and fills in the API's defaults.
// Cheap. Texts that the result keeps are bounded and printable.
//   FieldError (request_errors.h): a field is missing or invalid by itself; the
//   coordinator checks what depends on the verifier or the drafters.
//   NOT_FOUND: another model.
absl::StatusOr<RequestParams> ParseGenerateRequest(
    const v1::GenerateRequest& request, const ServedModel& model,
    absl::Time deadline);

// Returns the name of the field with the prompt.
std::string PromptField(const v1::GenerateRequest& request);
// Size of the prompt in bytes, of its text or of its ids, and of the output
// that is resumed.
int64_t PromptBytes(const v1::GenerateRequest& request);
// The work of EncodePrompt, in bytes of a text that takes as long.
int64_t PromptWork(const v1::GenerateRequest& request);

// Checks by size alone that there is a prompt and that it may fit `max_context`
// tokens, so that nothing is spent on one that cannot. FieldErrors.
absl::Status CheckPromptSize(const v1::GenerateRequest& request,
                             const ServedModel& model, int64_t max_context);

// Tokenizes the prompt; takes about a second per MiB of text. FieldErrors.
// REQUIRES: CheckPromptSize has passed.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(
    const v1::GenerateRequest& request, const ServedModel& model);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_REQUEST_H_
