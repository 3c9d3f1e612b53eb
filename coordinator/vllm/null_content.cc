#include "coordinator/vllm/null_content.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja_program.h"
#include "nlohmann/json.hpp"

namespace espalier::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCheck =
    "{%- for message in messages %}{%- if message.content is none %}"
    "{{- raise_exception('messages[' ~ loop.index0 ~ '].content: the model\\'s "
    "chat template cannot render null; send an empty text') }}{%- endif %}"
    "{%- endfor %}";

// Whether the template renders the second turn of a tool loop.
bool RendersToolLoop(const JinjaProgram& program, const Json& content) {
  const Json call = {
      {"id", "call00001"},
      {"type", "function"},
      {"function", {{"name", "f"}, {"arguments", {{"a", "b"}}}}}};
  const Json messages = {{{"role", "user"}, {"content", "a"}},
                         {{"role", "assistant"},
                          {"content", content},
                          {"tool_calls", Json::array({call})}},
                         {{"role", "tool"},
                          {"name", "f"},
                          {"tool_call_id", "call00001"},
                          {"content", "c"}}};
  const Json trusted = {
      {"add_generation_prompt", true}, {"bos_token", ""}, {"eos_token", ""}};
  return program
      .Render(trusted, Json{{"messages", messages}}, absl::UnixEpoch())
      .ok();
}

}  // namespace

std::string WithNullContentCheck(const std::string& jinja) {
  const auto program = JinjaProgram::Parse(jinja);
  const bool blames_null = program.ok() &&
                           !RendersToolLoop(**program, nullptr) &&
                           RendersToolLoop(**program, "");
  return blames_null ? absl::StrCat(kCheck, jinja) : jinja;
}

void CheckNullContent(std::vector<TextFile>& files) {
  for (TextFile& file : files) {
    if (file.name == "chat_template.jinja") {
      file.content = WithNullContentCheck(file.content);
    }
    if (file.name != "tokenizer_config.json") continue;
    Json config =
        Json::parse(file.content, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object() || !config.contains("chat_template")) continue;
    Json& jinja = config["chat_template"];
    if (!jinja.is_string()) continue;
    const std::string checked = WithNullContentCheck(jinja.get<std::string>());
    if (checked == jinja.get<std::string>()) continue;
    jinja = checked;
    file.content = config.dump();
  }
}

}  // namespace espalier::coordinator
