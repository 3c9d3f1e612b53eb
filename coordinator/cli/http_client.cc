#include "coordinator/cli/http_client.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const v1::SpeculationOptions& speculation) {
  Json out = Json::object();
  if (speculation.has_enabled()) out["enabled"] = speculation.enabled();
  if (speculation.has_max_nodes()) out["max_nodes"] = speculation.max_nodes();
  if (speculation.has_strategy()) out["strategy"] = speculation.strategy();
  for (const std::string& name : speculation.drafters()) {
    out["drafters"].push_back(name);
  }
  return out;
}

Json ToBody(const v1::GenerateRequest& request) {
  Json body = {{"stream", true},
               {"return_token_ids", true},
               {"temperature", request.temperature()},
               {"seed", request.seed()},
               {"max_tokens", request.max_tokens()},
               {"ignore_eos", request.ignore_eos()},
               {"espalier", ToJson(request.speculation())}};
  if (!request.cache_salt().empty()) body["cache_salt"] = request.cache_salt();
  if (request.has_prompt()) body["prompt"] = request.prompt();
  for (const v1::ChatMessage& message : request.chat().messages()) {
    body["messages"].push_back(
        {{"role", message.role()}, {"content", message.content()}});
  }
  return body;
}

// Reads the events of a stream.
class EventReader {
 public:
  explicit EventReader(InferenceClient::OnText on_text) : on_text_(on_text) {}

  void Add(absl::string_view part) {
    absl::StrAppend(&rest_, part);
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != rest_.npos;
         begin = end + 1) {
      absl::string_view line(&rest_[begin], end - begin);
      if (absl::ConsumePrefix(&line, "data: {")) Read(rest_, begin + 6, end);
    }
    rest_.erase(0, begin);
  }

  // The answer of a stream that ended with this status.
  absl::StatusOr<Answer> Finish(int http_status) {
    if (http_status != 200) {
      const Json body = ReadOrderedJson(rest_);
      error_ = body.is_object() ? body.value("error", Json()) : Json();
    }
    if (http_status == 200 && error_.is_null()) return std::move(answer_);
    const std::string message = absl::StrCat(
        http_status, ": ",
        error_.is_object() ? error_.value("message", "") : "no error is named");
    const bool is_refusal = http_status == 429 || http_status == 503;
    return is_refusal ? absl::UnavailableError(message)
                      : absl::UnknownError(message);
  }

 private:
  void Read(const std::string& text, size_t begin, size_t end) {
    const Json event = ReadOrderedJson({text.data() + begin, end - begin});
    if (!event.is_object()) return;
    if (event.contains("error")) error_ = event["error"];
    for (const Json& choice : event.value("choices", Json::array())) {
      for (const Json& token : choice.value("token_ids", Json::array())) {
        answer_.token_ids.push_back(token.get<uint32_t>());
      }
      std::string said = choice.value("text", "");
      if (choice.contains("delta")) said = choice["delta"].value("content", "");
      answer_.text += said;
      if (!said.empty()) on_text_(said);
    }
    if (event.contains("espalier")) {
      answer_.summary.mutable_spec_stats()->set_num_spec_steps(
          event["espalier"].value("rounds", 0u));
    }
  }

  const InferenceClient::OnText on_text_;
  std::string rest_;
  Json error_;
  Answer answer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(
    std::string url) {
  RETURN_IF_ERROR(http::Client::Create(url).status());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(url)));
}

absl::StatusOr<std::unique_ptr<http::Client>> HttpClient::Take() {
  MutexLock lock(&mutex_);
  if (idle_.empty()) return http::Client::Create(url_);
  std::unique_ptr<http::Client> client = std::move(idle_.back());
  idle_.pop_back();
  return client;
}

absl::StatusOr<Answer> HttpClient::Generate(const v1::GenerateRequest& request,
                                            const CallOptions& options,
                                            InferenceClient::OnText on_text) {
  ASSIGN_OR_RETURN(std::unique_ptr<http::Client> client, Take());
  EventReader reader(on_text);
  const absl::StatusOr<int> status = client->Post(
      request.has_chat() ? "/v1/chat/completions" : "/v1/completions",
      ToText(ToBody(request)),
      {.timeout = options.timeout, .interrupt = options.interrupt},
      [&reader](absl::string_view part) { reader.Add(part); });
  RETURN_IF_ERROR(status.status());
  MutexLock lock(&mutex_);
  idle_.push_back(std::move(client));
  return reader.Finish(*status);
}

}  // namespace espalier::cli
