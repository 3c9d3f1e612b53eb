// /tokenize and /detokenize, as vLLM has them.
#include <utility>

#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/chat_plan.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/encoded_answer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

absl::Status PromptText(absl::string_view name, const Json& value,
                        ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string prompt, ReadText(name, value));
  out.generate.set_prompt(prompt);
  return absl::OkStatus();
}

absl::Status Tokens(absl::string_view name, const Json& value,
                    ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, ReadTokens(name, value));
  out.generate.mutable_token_ids()->mutable_ids()->Assign(tokens.begin(),
                                                          tokens.end());
  return absl::OkStatus();
}

absl::Status ReturnTexts(absl::string_view name, const Json& value,
                         ApiRequest& out) {
  ASSIGN_OR_RETURN(out.return_token_texts, ReadBool(name, value));
  return absl::OkStatus();
}

absl::Status SpecialTokens(absl::string_view name, const Json& value,
                           ApiRequest&) {
  ASSIGN_OR_RETURN(const bool wanted, ReadBool(name, value));
  if (wanted) return absl::OkStatus();
  return FieldError(name, "only true is supported");
}

constexpr Field kModelField[] = {
    {"model", FollowModel, "the name of the served model, or absent"}};
constexpr Field kTokenizeFields[] = {
    {"prompt", PromptText, "a text; or messages"},
    {"return_token_strs", ReturnTexts, "true: the tokens as texts, too"},
    {"add_special_tokens", SpecialTokens, "true: those of every prompt"},
};
constexpr Field kDetokenizeFields[] = {{"tokens", Tokens, "token ids"}};

absl::StatusOr<ApiRequest> ReadTokenizeRequest(const ServedModel& model,
                                               const std::string& text) {
  ASSIGN_OR_RETURN(const Json body, ReadBody(text));
  ApiRequest out;
  RETURN_IF_ERROR(ReadFields(
      body, {kModelField, kTokenizeFields, ChatPromptFields()}, out));
  if (Find(body, "prompt") == nullptr) {
    if (out.generate.chat().messages().empty()) {
      return FieldError("prompt", "prompt or messages are needed");
    }
    RETURN_IF_ERROR(PlanChat(model, out));
  } else if (!out.generate.has_prompt() || Find(body, "messages") != nullptr) {
    return FieldError("prompt", "fields of a chat are there as well");
  }
  return out;
}

std::unique_ptr<http::Answer> Tokenize(const ApiContext& context,
                                       const http::Request& request,
                                       http::Wake wake) {
  absl::StatusOr<ApiRequest> read =
      ReadTokenizeRequest(*context.model, request.body);
  if (!read.ok()) return Failed(read.status());
  const auto write = [context, texts = read->return_token_texts](
                         const std::vector<TokenId>& tokens) {
    Json body = {{"count", tokens.size()}, {"tokens", tokens}};
    if (const auto verifier = context.verifier_info()) {
      body["max_model_len"] = verifier->max_context;
    }
    for (size_t i = 0; texts && i < tokens.size(); ++i) {
      body["token_strs"].push_back(
          std::string(context.model->tokenizer->BytesOf(tokens[i])));
    }
    return body;
  };
  return NewEncodedAnswer(*context.generator, std::move(read->generate), write,
                          OpenAiError, std::move(wake));
}

absl::StatusOr<std::string> TextOf(const ServedModel& model,
                                   const std::string& body) {
  ASSIGN_OR_RETURN(const Json json, ReadBody(body));
  ApiRequest read;
  RETURN_IF_ERROR(ReadFields(json, {kModelField, kDetokenizeFields}, read));
  if (read.generate.has_model()) {
    RETURN_IF_ERROR(CheckModelName(read.generate.model(), model));
  }
  if (!read.generate.has_token_ids()) return FieldError("tokens", "is missing");
  const auto& ids = read.generate.token_ids().ids();
  const std::vector<TokenId> tokens(ids.begin(), ids.end());
  RETURN_IF_ERROR(CheckTokens("tokens", tokens, model.tokenizer->vocab_size()));
  return model.tokenizer->Decode(tokens, /*skip_special=*/false);
}

std::unique_ptr<http::Answer> Detokenize(const ApiContext& context,
                                         const http::Request& request) {
  const auto text = TextOf(*context.model, request.body);
  if (!text.ok()) return Failed(text.status());
  return Answered(Json{{"prompt", *text}});
}

}  // namespace

void AddTextRoutes(const ApiContext& context, Routes& routes) {
  routes.push_back(
      {.method = "POST",
       .path = "/tokenize",
       .handle =
           [context](const http::Request& request, http::Wake wake) {
             return Tokenize(context, request, std::move(wake));
           },
       .summary = "the tokens of a text or chat, as vLLM has it",
       .fields = {kModelField, kTokenizeFields, ChatPromptFields()}});
  routes.push_back(
      {.method = "POST",
       .path = "/detokenize",
       .handle =
           [context](const http::Request& request, const http::Wake&) {
             return Detokenize(context, request);
           },
       .summary = "the text of tokens, as vLLM has it",
       .fields = {kModelField, kDetokenizeFields}});
}

}  // namespace espalier::coordinator
