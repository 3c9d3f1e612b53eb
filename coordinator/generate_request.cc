#include "coordinator/generate_request.h"

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/spec/request_errors.h"

namespace espalier::coordinator {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
constexpr int kMaxStopTokens = 64;

// For requests without a seed: nobody can foresee their text.
uint64_t UnguessableSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

absl::StatusOr<std::string> RequestId(const v1::GenerateRequest& request) {
  if (!request.has_request_id()) {
    return absl::StrCat("req-", absl::Hex(UnguessableSeed(), absl::kZeroPad16));
  }
  const std::string& id = request.request_id();
  if (id.empty() || id.size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat(id.size(),
                                                 " bytes, must be 1 "
                                                 "to ",
                                                 kMaxRequestIdBytes));
  }
  return id;
}

// Narrowing only: the coordinator checks ids against the vocabulary.
absl::StatusOr<std::vector<TokenId>> TokenList(absl::string_view field,
                                               absl::Span<const uint32_t> ids) {
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (uint32_t id : ids) {
    if (id > std::numeric_limits<TokenId>::max()) {
      return FieldError(
          field, absl::StrCat("token ", id, " is outside every vocabulary"));
    }
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

absl::StatusOr<std::vector<TokenId>> ChatPrompt(const v1::Chat& chat,
                                                const ServedModel& model) {
  if (!model.chat_template) {
    return FieldError("chat", absl::StrCat("model \"", model.name,
                                           "\" has no chat template"));
  }
  std::vector<ChatMessage> messages;
  for (const v1::ChatMessage& message : chat.messages()) {
    if (message.role() != "system" && message.role() != "user" &&
        message.role() != "assistant") {
      return FieldError(
          "chat.messages.role",
          absl::StrCat("\"", message.role(),
                       "\" is not one of system, user, assistant"));
    }
    messages.push_back({message.role(), message.content()});
  }
  absl::StatusOr<std::vector<TokenId>> prompt =
      model.chat_template->Render(messages);
  if (!prompt.ok()) return FieldError("chat", prompt.status().message());
  return prompt;
}

absl::StatusOr<std::vector<TokenId>> Prompt(const v1::GenerateRequest& request,
                                            const ServedModel& model) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      return model.tokenizer->Encode(request.prompt());
    case v1::GenerateRequest::kTokenIds:
      return TokenList("token_ids", request.token_ids().ids());
    case v1::GenerateRequest::kChat:
      return ChatPrompt(request.chat(), model);
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return FieldError("input", "one of prompt, token_ids and chat is needed");
}

absl::StatusOr<SamplingParams> Sampling(const v1::GenerateRequest& request) {
  if (request.top_k() > std::numeric_limits<int32_t>::max()) {
    return FieldError("top_k", absl::StrCat(request.top_k(), " is too large"));
  }
  return SamplingParams{
      .temperature = request.temperature(),
      .top_k = static_cast<int32_t>(request.top_k()),
      .top_p = request.has_top_p() ? request.top_p() : 1.0f,
      .seed = request.has_seed() ? request.seed() : UnguessableSeed()};
}

SpeculationOptions Speculation(const v1::SpeculationOptions& options) {
  SpeculationOptions out;
  if (options.has_enabled()) out.enabled = options.enabled();
  if (options.has_max_nodes()) out.max_nodes = options.max_nodes();
  if (options.has_max_depth()) out.max_depth = options.max_depth();
  out.drafters.assign(options.drafters().begin(), options.drafters().end());
  if (options.has_strategy()) out.strategy = options.strategy();
  if (options.has_rule()) out.rule = options.rule();
  return out;
}

}  // namespace

absl::StatusOr<GenerationRequest> ParseGenerateRequest(
    const v1::GenerateRequest& request, const ServedModel& model,
    absl::Time deadline) {
  if (request.has_model() && request.model() != model.name) {
    return absl::NotFoundError(absl::StrCat("model \"", request.model(),
                                            "\" is not served here; \"",
                                            model.name, "\" is"));
  }
  GenerationRequest out;
  ASSIGN_OR_RETURN(out.request_id, RequestId(request));
  ASSIGN_OR_RETURN(out.prompt, Prompt(request, model));
  ASSIGN_OR_RETURN(out.sampling, Sampling(request));
  if (request.has_max_tokens()) out.max_tokens = request.max_tokens();
  if (request.stop_token_ids_size() > kMaxStopTokens) {
    return FieldError("stop_token_ids",
                      absl::StrCat(request.stop_token_ids_size(),
                                   " tokens, limit ", kMaxStopTokens));
  }
  ASSIGN_OR_RETURN(out.stop_token_ids,
                   TokenList("stop_token_ids", request.stop_token_ids()));
  out.ignore_eos = request.ignore_eos();
  out.speculation = Speculation(request.speculation());
  out.deadline = deadline;
  return out;
}

}  // namespace espalier::coordinator
