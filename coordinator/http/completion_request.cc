#include "coordinator/http/completion_request.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/generation_fields.h"

namespace espalier::coordinator {
namespace {

constexpr uint32_t kDefaultMaxTokens = 16;  // of OpenAI's API and vLLM's
constexpr size_t kMaxPrompts = 32;

// A text or a list of token ids.
absl::Status AddPrompt(absl::string_view name, const Json& value,
                       ApiRequest& out) {
  v1::GenerateRequest& request = out.prompts.emplace_back();
  if (value.is_string()) {
    request.set_prompt(value.get<std::string>());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, ReadTokens(name, value));
  request.mutable_token_ids()->mutable_ids()->Assign(tokens.begin(),
                                                     tokens.end());
  return absl::OkStatus();
}

absl::Status Prompt(absl::string_view name, const Json& value,
                    ApiRequest& out) {
  const bool is_batch =
      value.is_array() && !value.empty() && !value[0].is_number();
  if (!is_batch) return AddPrompt(name, value, out);
  if (value.size() > kMaxPrompts) {
    return FieldError(
        name, absl::StrCat(value.size(), " prompts, limit ", kMaxPrompts));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    RETURN_IF_ERROR(AddPrompt(Item(name, i), value[i], out));
  }
  return absl::OkStatus();
}

absl::Status NumLogprobs(absl::string_view name, const Json& value,
                         ApiRequest& out) {
  // As a flag: what some clients send.
  if (value.is_boolean() && !value.get<bool>()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t count,
                   ReadInteger(name, value, 0, UINT32_MAX));
  out.logprobs = true;
  out.generate.set_logprobs(static_cast<uint32_t>(count));
  return absl::OkStatus();
}

absl::Status Echo(absl::string_view name, const Json& value, ApiRequest& out) {
  ASSIGN_OR_RETURN(const bool echo, ReadBool(name, value));
  out.generate.set_echo(echo);
  return absl::OkStatus();
}

absl::Status BestOf(absl::string_view name, const Json& value, ApiRequest&) {
  ASSIGN_OR_RETURN(const int64_t count,
                   ReadInteger(name, value, 1, UINT32_MAX));
  if (count == 1) return absl::OkStatus();
  return FieldError(name, "only 1 is supported; see n");
}

absl::Status ResumedOutput(const std::string& field, const Json& value,
                           v1::ResumedOutput& out) {
  if (!value.is_object()) return FieldError(field, "must be an object");
  for (const auto& [key, member] : value.items()) {
    const std::string name = absl::StrCat(field, ".", Printable(key, 64));
    if (key == "token_ids") {
      ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens,
                       ReadTokens(name, member));
      out.mutable_token_ids()->Assign(tokens.begin(), tokens.end());
    } else if (key == "finished") {
      ASSIGN_OR_RETURN(const bool finished, ReadBool(name, member));
      out.set_finished(finished);
    } else {
      return FieldError(name, "is not one of token_ids, finished");
    }
  }
  return absl::OkStatus();
}

absl::Status Origin(const std::string& field, const Json& value,
                    v1::Resumption& out) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(field, value));
  uint64_t origin = 0;
  if (!absl::SimpleAtoi(text, &origin)) {
    return FieldError(field, "is not the origin of an answer");
  }
  out.set_origin(origin);
  return absl::OkStatus();
}

absl::Status Resumption(absl::string_view name, const Json& value,
                        ApiRequest& out) {
  if (!value.is_object()) return FieldError(name, "must be an object");
  v1::Resumption& resumption = *out.generate.mutable_resumption();
  for (const auto& [key, member] : value.items()) {
    const std::string field = absl::StrCat(name, ".", Printable(key, 64));
    if (key == "origin") {
      RETURN_IF_ERROR(Origin(field, member, resumption));
    } else if (key == "outputs" && member.is_array()) {
      for (size_t i = 0; i < member.size(); ++i) {
        RETURN_IF_ERROR(ResumedOutput(Item(field, i), member[i],
                                      *resumption.add_outputs()));
      }
    } else {
      return FieldError(field, "is not one of outputs (a list), origin");
    }
  }
  return absl::OkStatus();
}

constexpr Field kCompletionFields[] = {
    {"prompt", Prompt,
     "a text, a list of token ids, or a list of at most 32 of either"},
    {"echo", Echo, "the prompt before the text, with its log-probabilities"},
    {"logprobs", NumLogprobs, "0 .. 20"},
    {"best_of", BestOf, "1"},
    {"resumption", Resumption,
     "outputs, origin: goes on with a broken answer to a single prompt"},
    {"suffix", nullptr, "is not supported"},
};

}  // namespace

FieldTable CompletionFields() { return kCompletionFields; }

absl::StatusOr<ApiRequest> ReadCompletionRequest(const Json& body) {
  ApiRequest out;
  RETURN_IF_ERROR(ReadFields(
      body, {GenerationFields(), ConstraintFields(), CompletionFields()}, out));
  if (out.prompts.empty()) return FieldError("prompt", "is missing");
  v1::GenerateRequest& shared = out.generate;
  if (shared.has_resumption() && out.prompts.size() > 1) {
    return FieldError("resumption", "is for a single prompt");
  }
  if (!shared.has_max_tokens()) shared.set_max_tokens(kDefaultMaxTokens);
  if (shared.echo() && shared.has_logprobs() && !shared.has_prompt_logprobs()) {
    shared.set_prompt_logprobs(shared.logprobs());
  }
  SetTemperature(out);
  for (v1::GenerateRequest& prompt : out.prompts) {
    prompt.MergeFrom(shared);
  }
  return out;
}

}  // namespace espalier::coordinator
