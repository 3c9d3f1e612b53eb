#ifndef ESPALIER_COORDINATOR_HTTP_LOGPROBS_JSON_H_
#define ESPALIER_COORDINATOR_HTTP_LOGPROBS_JSON_H_

#include <cstdint>

#include "coordinator/http/json_read.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

using PositionList = google::protobuf::RepeatedPtrField<v1::PositionLogprobs>;

// Appends to `logprobs.content` of a choice of chat.
void AppendChatLogprobs(const PositionList& positions, Json& content);

// Log-probabilities of a choice of completions: lists that belong together.
class CompletionLogprobs {
 public:
  // A first token of a prompt, which has none.
  void AddFirst(const std::string& token);
  void Add(const PositionList& positions);
  // Returns what was added since the last call.
  Json Take();

 private:
  static Json Empty();
  Json lists_ = Empty();
  int64_t offset_ = 0;  // of the next token in the text, in characters
};

// vLLM's prompt_logprobs: null for the first token, then objects by token id.
Json PromptLogprobs(const PositionList& positions);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_LOGPROBS_JSON_H_
