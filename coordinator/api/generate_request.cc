#include "coordinator/api/generate_request.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/speculation/request_errors.h"
#include "coordinator/api/stop_text.h"
#include "coordinator/session/request_plan.h"

namespace espalier::coordinator {
namespace {

constexpr size_t kMaxNameBytes = 128;  // of a request, a drafter, a rule
constexpr size_t kShownBytes = 64;     // of a text that is refused
constexpr int kMaxStopTokens = 64;
constexpr int kMaxStopStrings = 32;
constexpr int kMaxBadWords = 64;
constexpr size_t kMaxTextBytes = 256;  // of a stop string, a bad word
constexpr int kMaxDrafters = 64;
// A prompt of at most this size is never refused for its bytes: the tokenizer
// drops bytes without a token, so the prompt may have fewer tokens than its
// bytes suggest.
constexpr int64_t kSmallPromptBytes = 64 << 10;

// For requests without a seed: their text must be unpredictable.
uint64_t UnguessableSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// A text that will appear in logs, metrics and error messages.
absl::StatusOr<std::string> Name(absl::string_view field,
                                 const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return FieldError(field, absl::StrCat(name.size(), " bytes, must be 1 to ",
                                          kMaxNameBytes));
  }
  if (!IsPrintable(name)) {
    return FieldError(field, absl::StrCat("\"", Printable(name, kShownBytes),
                                          "\" has control characters"));
  }
  return name;
}

absl::StatusOr<std::string> RequestId(const v1::GenerateRequest& request) {
  if (!request.has_request_id()) {
    return absl::StrCat("req-", absl::Hex(UnguessableSeed(), absl::kZeroPad16));
  }
  return Name("request_id", request.request_id());
}

// Converts only: the coordinator checks ids against the vocabulary.
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

absl::Status CheckChat(const ServedModel& model) {
  if (model.chat_template != nullptr) return absl::OkStatus();
  return FieldError(
      "chat",
      absl::StrCat("model \"", model.name, "\" has no chat template",
                   model.why_no_chat.empty() ? "" : ": ", model.why_no_chat));
}

ChatEnd EndOf(const v1::Chat& chat) {
  switch (chat.end()) {
    case v1::CHAT_END_CONTINUE:
      return ChatEnd::kContinue;
    case v1::CHAT_END_NOTHING:
      return ChatEnd::kNothing;
    default:
      return ChatEnd::kNewMessage;
  }
}

Conversation ToConversation(const v1::Chat& chat) {
  Conversation conversation = {.tools = chat.tools(),
                               .template_args = chat.template_args(),
                               .end = EndOf(chat)};
  for (const v1::ChatMessage& message : chat.messages()) {
    conversation.messages.push_back(
        {.role = message.role(),
         .content = message.content(),
         .null_content =
             !message.has_content() && !message.tool_calls().empty(),
         .tool_calls = message.tool_calls(),
         .tool_call_id = message.tool_call_id(),
         .name = message.name(),
         .reasoning_content = message.reasoning_content()});
  }
  return conversation;
}

int64_t BytesOf(const v1::Chat& chat) {
  size_t bytes = chat.tools().size() + chat.template_args().size();
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += message.role().size() + message.content().size() +
             message.tool_calls().size() + message.tool_call_id().size() +
             message.name().size() + message.reasoning_content().size();
  }
  return static_cast<int64_t>(bytes);
}

// As transformers encodes a text, but for a prompt that spells the BOS token
// itself, and for an empty one, which is refused.
std::vector<TokenId> TextPrompt(const std::string& text,
                                const Tokenizer& tokenizer) {
  std::vector<TokenId> ids = tokenizer.Encode(text);
  const absl::Span<const TokenId> prefix = tokenizer.prefix();
  const bool has_prefix =
      absl::MakeConstSpan(ids).subspan(0, prefix.size()) == prefix;
  if (!ids.empty() && !has_prefix) {
    ids.insert(ids.begin(), prefix.begin(), prefix.end());
  }
  return ids;
}

absl::Status CheckTextSize(const std::string& field, int64_t bytes,
                           const ServedModel& model, int64_t max_context) {
  if (bytes > model.max_prompt_bytes) {
    return FieldError(
        field, absl::StrCat(bytes, " bytes; at most ", model.max_prompt_bytes,
                            " are taken (core.max_prompt_kib)"));
  }
  const int64_t most =
      std::max(model.tokenizer->MostBytesOf(max_context), kSmallPromptBytes);
  if (bytes <= most) return absl::OkStatus();
  return FieldError(
      field, absl::StrCat(bytes, " bytes; at most ", most,
                          " can fit the context of ", max_context, " tokens"));
}

absl::StatusOr<SamplingParams> Sampling(const v1::GenerateRequest& request) {
  if (request.top_k() > std::numeric_limits<int32_t>::max()) {
    return FieldError("top_k", absl::StrCat(request.top_k(), " is too large"));
  }
  return SamplingParams{
      .temperature = request.temperature(),
      .top_k = static_cast<int32_t>(request.top_k()),
      .top_p = request.has_top_p() ? request.top_p() : 1.0f,
      .min_p = request.min_p(),
      .typical_p = request.has_typical_p() ? request.typical_p() : 1.0f,
      .seed = request.has_seed() ? request.seed() : UnguessableSeed()};
}

absl::Status CheckTexts(
    absl::string_view field,
    const google::protobuf::RepeatedPtrField<std::string>& texts, int limit) {
  if (texts.size() > limit) {
    return FieldError(field,
                      absl::StrCat(texts.size(), " texts, limit ", limit));
  }
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > kMaxTextBytes) {
      return FieldError(
          field,
          absl::StrCat(text.size(), " bytes, must be 1 to ", kMaxTextBytes));
    }
  }
  return absl::OkStatus();
}

// As vLLM (SamplingParams.update_from_tokenizer): the tokens of each word, and
// those with a space before it if the space changes the first token only.
absl::StatusOr<std::vector<std::vector<TokenId>>> BadWords(
    const v1::GenerateRequest& request, const Tokenizer& tokenizer) {
  RETURN_IF_ERROR(CheckTexts("bad_words", request.bad_words(), kMaxBadWords));
  std::vector<std::vector<TokenId>> words;
  for (const std::string& text : request.bad_words()) {
    const absl::string_view word = absl::StripLeadingAsciiWhitespace(text);
    std::vector<TokenId> bare =
        tokenizer.Encode(std::string(word), SpecialText::kPlain);
    std::vector<TokenId> spaced =
        tokenizer.Encode(absl::StrCat(" ", word), SpecialText::kPlain);
    if (bare.empty()) {
      return FieldError("bad_words",
                        absl::StrCat("\"", Printable(text, kShownBytes),
                                     "\" has no token of this model"));
    }
    const bool is_new =
        spaced.size() == bare.size() && spaced.front() != bare.front();
    words.push_back(std::move(bare));
    if (is_new) words.push_back(std::move(spaced));
  }
  return words;
}

absl::StatusOr<LogitAdjustments> Adjustments(const v1::GenerateRequest& request,
                                             const Tokenizer& tokenizer) {
  LogitAdjustments adjustments = {
      .min_tokens = request.min_tokens(),
      .repetition_penalty =
          request.has_repetition_penalty() ? request.repetition_penalty() : 1,
      .frequency_penalty = request.frequency_penalty(),
      .presence_penalty = request.presence_penalty()};
  if (request.has_structured_output()) {
    ASSIGN_OR_RETURN(adjustments.grammar,
                     espalier::FromProto(request.structured_output()));
  }
  ASSIGN_OR_RETURN(adjustments.bad_words, BadWords(request, tokenizer));
  for (const auto& [id, value] : request.logit_bias()) {
    ASSIGN_OR_RETURN(const std::vector<TokenId> token,
                     TokenList("logit_bias", {id}));
    adjustments.bias.emplace_back(token[0], value);
  }
  // A map has no order; the request's repetitions on the wire should be equal.
  std::sort(adjustments.bias.begin(), adjustments.bias.end());
  return adjustments;
}

absl::StatusOr<SpeculationOptions> Speculation(
    const v1::SpeculationOptions& options) {
  SpeculationOptions out;
  if (options.has_enabled()) out.enabled = options.enabled();
  if (options.has_max_nodes()) out.max_nodes = options.max_nodes();
  if (options.has_max_depth()) out.max_depth = options.max_depth();
  if (options.drafters_size() > kMaxDrafters) {
    return FieldError(
        "speculation.drafters",
        absl::StrCat(options.drafters_size(), " names, limit ", kMaxDrafters));
  }
  for (const std::string& drafter : options.drafters()) {
    ASSIGN_OR_RETURN(out.drafters.emplace_back(),
                     Name("speculation.drafters", drafter));
  }
  if (options.has_strategy()) {
    ASSIGN_OR_RETURN(out.strategy,
                     Name("speculation.strategy", options.strategy()));
  }
  if (options.has_rule()) {
    ASSIGN_OR_RETURN(out.rule, Name("speculation.rule", options.rule()));
  }
  return out;
}

absl::StatusOr<NewOutputText> Text(const v1::GenerateRequest& request,
                                   const ServedModel& model) {
  RETURN_IF_ERROR(CheckTexts("stop", request.stop(), kMaxStopStrings));
  const StopText text(
      {.tokenizer = model.tokenizer,
       .stop_strings = {request.stop().begin(), request.stop().end()},
       .include_stop_string = request.include_stop_str_in_output(),
       .show_special = request.show_special_tokens(),
       .min_tokens = request.min_tokens()});
  return [text] { return std::make_unique<StopText>(text); };
}

absl::StatusOr<int64_t> NumOutputs(const v1::GenerateRequest& request) {
  const int64_t n = request.has_n() ? request.n() : 1;
  if (n >= 1 && n <= kMaxOutputs) return n;
  return FieldError("n", absl::StrCat(n, " is not in 1 .. ", kMaxOutputs));
}

// REQUIRES: `out` has its number of outputs and its sampling.
absl::Status ReadResumption(const v1::GenerateRequest& request,
                            RequestParams& out) {
  if (!request.has_resumption()) return absl::OkStatus();
  const v1::Resumption& resumption = request.resumption();
  if (resumption.outputs_size() != out.num_outputs) {
    return FieldError("resumption.outputs",
                      absl::StrCat(resumption.outputs_size(), " of the ",
                                   out.num_outputs, " outputs"));
  }
  if (!out.sampling.greedy() && !request.has_seed()) {
    return FieldError("seed", "is needed to resume a text that is sampled");
  }
  for (int i = 0; i < resumption.outputs_size(); ++i) {
    const v1::ResumedOutput& output = resumption.outputs(i);
    ASSIGN_OR_RETURN(
        std::vector<TokenId> tokens,
        TokenList(absl::StrCat("resumption.outputs[", i, "].token_ids"),
                  output.token_ids()));
    out.resumed.push_back(
        {.tokens = std::move(tokens), .finished = output.finished()});
  }
  if (resumption.has_origin()) out.resumed_origin = resumption.origin();
  if (out.num_running_outputs() > 0) return absl::OkStatus();
  return FieldError("resumption.outputs", "all are finished");
}

LogprobRequest Logprobs(const v1::GenerateRequest& request) {
  // Too many are refused by the plan.
  const auto count = [](uint32_t wanted) {
    return static_cast<int32_t>(
        std::min<uint32_t>(wanted, std::numeric_limits<int32_t>::max()));
  };
  LogprobRequest out;
  if (request.has_logprobs()) out.emitted = count(request.logprobs());
  if (request.has_prompt_logprobs()) {
    out.prompt = count(request.prompt_logprobs());
  }
  return out;
}

}  // namespace

absl::Status CheckModelName(absl::string_view name, const ServedModel& model) {
  if (name == model.name) return absl::OkStatus();
  return WithReason(absl::NotFoundError(absl::StrCat(
                        "model \"", Printable(name, kShownBytes),
                        "\" is not served here; \"", model.name, "\" is")),
                    "MODEL_NOT_SERVED");
}

absl::StatusOr<RequestParams> ParseGenerateRequest(
    const v1::GenerateRequest& request, const ServedModel& model,
    absl::Time deadline) {
  if (request.has_model()) {
    RETURN_IF_ERROR(CheckModelName(request.model(), model));
  }
  RequestParams out;
  ASSIGN_OR_RETURN(out.request_id, RequestId(request));
  ASSIGN_OR_RETURN(out.sampling, Sampling(request));
  ASSIGN_OR_RETURN(out.adjustments, Adjustments(request, *model.tokenizer));
  if (request.has_max_tokens()) out.max_tokens = request.max_tokens();
  if (request.stop_token_ids_size() > kMaxStopTokens) {
    return FieldError("stop_token_ids",
                      absl::StrCat(request.stop_token_ids_size(),
                                   " tokens, limit ", kMaxStopTokens));
  }
  ASSIGN_OR_RETURN(out.stop_token_ids,
                   TokenList("stop_token_ids", request.stop_token_ids()));
  out.ignore_eos = request.ignore_eos();
  out.logprobs = Logprobs(request);
  ASSIGN_OR_RETURN(out.num_outputs, NumOutputs(request));
  RETURN_IF_ERROR(ReadResumption(request, out));
  ASSIGN_OR_RETURN(out.new_text, Text(request, model));
  ASSIGN_OR_RETURN(out.speculation, Speculation(request.speculation()));
  if (request.has_cache_salt() && request.cache_salt().empty()) {
    return FieldError("cache_salt", "empty");
  }
  out.cache_salt = request.cache_salt();
  out.priority = request.priority();
  out.deadline = deadline;
  return out;
}

namespace {

int64_t InputBytes(const v1::GenerateRequest& request) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      return static_cast<int64_t>(request.prompt().size());
    case v1::GenerateRequest::kTokenIds:
      return int64_t{sizeof(TokenId)} * request.token_ids().ids_size();
    case v1::GenerateRequest::kChat:
      return BytesOf(request.chat());
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace

std::string PromptField(const v1::GenerateRequest& request) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kTokenIds:
      return "token_ids";
    case v1::GenerateRequest::kChat:
      return "chat";
    default:
      return "prompt";
  }
}

int64_t PromptBytes(const v1::GenerateRequest& request) {
  int64_t bytes = InputBytes(request);
  for (const v1::ResumedOutput& output : request.resumption().outputs()) {
    bytes += int64_t{sizeof(TokenId)} * output.token_ids_size();
  }
  return bytes;
}

// Templates take about a tenth of a millisecond for a message.
int64_t PromptWork(const v1::GenerateRequest& request) {
  constexpr int64_t kBytesPerMessage = 128;
  return PromptBytes(request) +
         kBytesPerMessage * request.chat().messages_size();
}

absl::Status CheckPromptSize(const v1::GenerateRequest& request,
                             const ServedModel& model, int64_t max_context) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kTokenIds:
      return CheckFitsContext("token_ids", request.token_ids().ids_size(),
                              max_context);
    case v1::GenerateRequest::kChat:
      RETURN_IF_ERROR(CheckChat(model));
      return CheckTextSize("chat", InputBytes(request), model, max_context);
    case v1::GenerateRequest::kPrompt:
      return CheckTextSize("prompt", InputBytes(request), model, max_context);
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return FieldError("input", "one of prompt, token_ids and chat is needed");
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(
    const v1::GenerateRequest& request, const ServedModel& model) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kTokenIds:
      return TokenList("token_ids", request.token_ids().ids());
    case v1::GenerateRequest::kChat:
      return model.chat_template->Render(ToConversation(request.chat()));
    default:
      return TextPrompt(request.prompt(), *model.tokenizer);
  }
}

}  // namespace espalier::coordinator
