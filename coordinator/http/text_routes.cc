// /tokenize and /detokenize, as vLLM has them.
#include <utility>

#include "common/base/status_macros.h"
#include "common/spec/request_errors.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/encoded_answer.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

struct TokenizeRequest {
  v1::GenerateRequest generate;
  bool return_token_strs = false;
};

absl::Status ReadTokenizeField(const std::string& name, const Json& value,
                               TokenizeRequest& out) {
  if (name == "model") return ReadText(name, value).status();
  if (name == "prompt") {
    ASSIGN_OR_RETURN(const std::string prompt, ReadText(name, value));
    out.generate.set_prompt(prompt);
    return absl::OkStatus();
  }
  if (name == "messages") {
    return ReadMessages(name, value, *out.generate.mutable_chat());
  }
  if (name == "return_token_strs") {
    ASSIGN_OR_RETURN(out.return_token_strs, ReadBool(name, value));
    return absl::OkStatus();
  }
  return FieldError(name,
                    "is not one of model, prompt, messages, "
                    "return_token_strs");
}

absl::StatusOr<TokenizeRequest> ReadTokenizeRequest(const std::string& body) {
  ASSIGN_OR_RETURN(const Json json, ReadBody(body));
  TokenizeRequest out;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null()) RETURN_IF_ERROR(ReadTokenizeField(name, value, out));
  }
  if (json.contains("prompt") && json.contains("messages")) {
    return FieldError("messages", "prompt is there as well");
  }
  if (out.generate.input_case() != v1::GenerateRequest::INPUT_NOT_SET) {
    return out;
  }
  return FieldError("prompt", "prompt or messages are needed");
}

std::unique_ptr<http::Answer> Tokenize(const ApiContext& context,
                                       const http::Request& request,
                                       http::Wake wake) {
  absl::StatusOr<TokenizeRequest> read = ReadTokenizeRequest(request.body);
  if (!read.ok()) return Failed(read.status());
  const auto write = [context, strings = read->return_token_strs](
                         const std::vector<TokenId>& tokens) {
    Json body = {{"count", tokens.size()}, {"tokens", tokens}};
    if (const auto verifier = context.verifier_info()) {
      body["max_model_len"] = verifier->max_context;
    }
    for (size_t i = 0; strings && i < tokens.size(); ++i) {
      body["token_strs"].push_back(
          std::string(context.model->tokenizer->BytesOf(tokens[i])));
    }
    return body;
  };
  return NewEncodedAnswer(*context.generator, std::move(read->generate), write,
                          OpenAiError, std::move(wake));
}

std::unique_ptr<http::Answer> Detokenize(const ApiContext& context,
                                         const http::Request& request) {
  const auto text = [&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const Json json, ReadBody(request.body));
    const Json* tokens = Find(json, "tokens");
    if (tokens == nullptr) return FieldError("tokens", "is missing");
    ASSIGN_OR_RETURN(const std::vector<uint32_t> ids,
                     ReadTokens("tokens", *tokens));
    const std::vector<TokenId> known(ids.begin(), ids.end());
    RETURN_IF_ERROR(
        CheckTokens("tokens", known, context.model->tokenizer->vocab_size()));
    return context.model->tokenizer->Decode(known, /*skip_special=*/false);
  }();
  if (!text.ok()) return Failed(text.status());
  return Answered(Json{{"prompt", *text}});
}

// For the description of the routes.
constexpr Field kTokenizeFields[] = {
    {"model", Accept, "the name of the served model, or absent"},
    {"prompt", Accept, "a text"},
    {"messages", Accept, "a chat, in place of a prompt"},
    {"return_token_strs", Accept, "true: the tokens as texts, too"},
};
constexpr Field kDetokenizeFields[] = {
    {"model", Accept, "the name of the served model, or absent"},
    {"tokens", Accept, "token ids"},
};

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
       .fields = {kTokenizeFields}});
  routes.push_back(
      {.method = "POST",
       .path = "/detokenize",
       .handle =
           [context](const http::Request& request, const http::Wake&) {
             return Detokenize(context, request);
           },
       .summary = "the text of tokens, as vLLM has it",
       .fields = {kDetokenizeFields}});
}

}  // namespace espalier::coordinator
