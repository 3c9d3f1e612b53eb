#include "coordinator/vllm/null_content.h"

#include <gtest/gtest.h>

#include "common/chat/jinja_program.h"
#include "nlohmann/json.hpp"

namespace espalier::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// A template that adds the content to a text, as the default model's does.
constexpr const char* kAdds =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";

std::string Render(const std::string& jinja, const Json& content) {
  const auto program = JinjaProgram::Parse(jinja);
  if (!program.ok()) return std::string(program.status().message());
  const Json input = {{"messages",
                       {{{"role", "user"}, {"content", "a"}},
                        {{"role", "assistant"}, {"content", content}}}}};
  const auto rendered =
      (*program)->Render(Json::object(), input, absl::UnixEpoch());
  return rendered.ok() ? rendered->text
                       : std::string(rendered.status().message());
}

TEST(NullContentTest, NamesTheMessageThatTheTemplateCannotRender) {
  const std::string checked = WithNullContentCheck(kAdds);
  EXPECT_EQ(Render(checked, nullptr),
            "the model's chat template: messages[1].content: the model's chat "
            "template cannot render null; send an empty text");
  EXPECT_EQ(Render(checked, "b"), Render(kAdds, "b"));
}

TEST(NullContentTest, LeavesOtherTemplatesAlone) {
  for (const char* jinja :
       {"{% for m in messages %}{{ m.content }}{% endfor %}",
        "{{ messages[9].content.x }}", "{% if"}) {
    EXPECT_EQ(WithNullContentCheck(jinja), jinja);
  }
}

TEST(NullContentTest, FindsTheTemplateInTheFilesOfATokenizer) {
  const std::string config = Json{{"a", 1}, {"chat_template", kAdds}}.dump();
  std::vector<TextFile> files = {{"config.json", "{}"},
                                 {"chat_template.jinja", kAdds},
                                 {"tokenizer_config.json", config}};
  CheckNullContent(files);
  EXPECT_EQ(files[0].content, "{}");
  EXPECT_EQ(files[1].content, WithNullContentCheck(kAdds));
  EXPECT_EQ(Json::parse(files[2].content)["chat_template"],
            WithNullContentCheck(kAdds));
}

}  // namespace
}  // namespace espalier::coordinator
