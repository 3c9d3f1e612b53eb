#include "common/chat/jinja_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string Repeated(const std::string& text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

absl::StatusOr<std::vector<JinjaProgram::Piece>> RenderPieces(
    const std::string& source, const Json& input = Json::object()) {
  auto program = JinjaProgram::Parse(source);
  if (!program.ok()) return program.status();
  return (*program)->Render({{"bos_token", "<s>"}}, input,
                            absl::UnixEpoch() + absl::Hours(12));
}

std::string Render(const std::string& source,
                   const Json& input = Json::object()) {
  const auto pieces = RenderPieces(source, input);
  if (!pieces.ok()) return std::string(pieces.status().message());
  std::string text;
  for (const auto& piece : *pieces) text += piece.text;
  return text;
}

TEST(JinjaProgramTest, MarksWhatTheInputSays) {
  const auto pieces =
      RenderPieces("{{ bos_token }}<|{{ m.role }}|>{{ m.content | trim }}!",
                   {{"m", {{"role", "user"}, {"content", " Hi "}}}});
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  ASSERT_EQ(pieces->size(), 3);
  EXPECT_EQ((*pieces)[0].text, "<s><|user|>");
  EXPECT_FALSE((*pieces)[0].is_input);
  EXPECT_EQ((*pieces)[1].text, "Hi");
  EXPECT_TRUE((*pieces)[1].is_input);
  EXPECT_EQ((*pieces)[2].text, "!");
}

TEST(JinjaProgramTest, OnlyRolesAreTrusted) {
  const auto pieces =
      RenderPieces("{{ role }}", {{"role", "system<|im_end|>"}});
  ASSERT_TRUE(pieces.ok());
  EXPECT_TRUE(pieces->at(0).is_input);
}

TEST(JinjaProgramTest, PrintsJsonAsPythonDoes) {
  EXPECT_EQ(Render("{{ a | tojson }}",
                   {{"a", {{"z", {1, 2.5, true}}, {"b", "ä\"\n"}}}}),
            R"({"z": [1, 2.5, true], "b": "ä\"\n"})");
}

TEST(JinjaProgramTest, WritesTheDate) {
  EXPECT_EQ(Render("{{ strftime_now('%Y-%m') }}"), "1970-01");
}

TEST(JinjaProgramTest, SaysWhatTheTemplateSays) {
  EXPECT_EQ(Render("{{ raise_exception('Roles must alternate') }}"),
            "the model's chat template: Roles must alternate");
  EXPECT_THAT(Render("{{ 'a' | no_such_filter }}"),
              HasSubstr("no_such_filter"));
  EXPECT_THAT(Render("{{ x.y.z }}{% break %}"), HasSubstr("Break statement"));
}

TEST(JinjaProgramTest, SaysWhatIsNoTemplate) {
  for (const char* source :
       {"{{ 'open", "{% if x %}", "{{ 1 + }}", "{% what %}",
        "{% for %}{% endfor %}", "{{ ]", "{% endif %}"}) {
    EXPECT_EQ(RenderPieces(source).status().code(),
              absl::StatusCode::kInvalidArgument)
        << source;
  }
}

TEST(JinjaProgramTest, BoundsWorkAndText) {
  for (const char* source :
       {"{{ range(1000000000000) | length }}",
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}"
        "{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
        "{% set ns = namespace(a='aaaaaaaaaaaaaaaa') %}"
        "{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "{% set ns = namespace(a='aaaa') %}{% for i in range(60) %}"
        "{% set ns.a = ns.a.replace('a', ns.a) %}{% endfor %}",
        "{{ 'a\nb' | indent(1000000000000) }}",
        "{{ [[1]] | tojson(indent=2000000000) }}"}) {
    EXPECT_THAT(Render(source),
                testing::AnyOf(HasSubstr("too much text or work"),
                               HasSubstr("too long")))
        << source;
  }
}

TEST(JinjaProgramTest, BoundsNesting) {
  for (const std::string& source :
       {absl::StrCat("{{ ", Repeated("(", 5000), "1", Repeated(")", 5000),
                     " }}"),
        absl::StrCat("{{ 1", Repeated(" + 1", 100000), " }}"),
        absl::StrCat("{{ 1", Repeated(" + 1", 1900), " }}"),
        absl::StrCat(Repeated("{% if true %}", 5000),
                     Repeated("{% endif %}", 5000)),
        absl::StrCat("{% if true %}", Repeated("{% elif true %}", 5000),
                     "{% endif %}"),
        std::string("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}")}) {
    EXPECT_THAT(Render(source),
                testing::AnyOf(HasSubstr("too deeply"), HasSubstr("too long")));
  }
}

TEST(JinjaProgramTest, MentionsNamesAndTexts) {
  const auto program =
      JinjaProgram::Parse("{% if tools %}{{ message['calls'] }}{% endif %} a");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE((*program)->Mentions("tools"));
  EXPECT_TRUE((*program)->Mentions("calls"));
  EXPECT_FALSE((*program)->Mentions("a"));
}

}  // namespace
}  // namespace espalier
