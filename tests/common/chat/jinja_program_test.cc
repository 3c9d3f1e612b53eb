#include "common/chat/jinja_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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

absl::StatusOr<JinjaProgram::Rendered> TryRender(
    const std::string& source, const Json& input = Json::object()) {
  auto program = JinjaProgram::Parse(source);
  if (!program.ok()) return program.status();
  return (*program)->Render({{"bos_token", "<s>"}}, input,
                            absl::UnixEpoch() + absl::Hours(12));
}

std::string Render(const std::string& source,
                   const Json& input = Json::object()) {
  const auto rendered = TryRender(source, input);
  if (!rendered.ok()) return std::string(rendered.status().message());
  return rendered->text;
}

// Returns what comes from the input, with "|" between the ranges.
std::string FromInput(const std::string& source, const Json& input) {
  const auto rendered = TryRender(source, input);
  if (!rendered.ok()) return std::string(rendered.status().message());
  std::string ranges;
  for (const ByteRange& range : rendered->from_input) {
    if (!ranges.empty()) ranges += "|";
    ranges += rendered->text.substr(range.begin, range.end - range.begin);
  }
  return ranges;
}

TEST(JinjaProgramTest, MarksWhatTheInputSays) {
  EXPECT_EQ(FromInput("{{ bos_token }}<|{{ m.role }}|>{{ m.content | trim }}!",
                      {{"m", {{"role", "user"}, {"content", " Hi "}}}}),
            "Hi");
}

TEST(JinjaProgramTest, OnlyRolesAreTrusted) {
  EXPECT_EQ(FromInput("{{ role }}", {{"role", "system<|im_end|>"}}),
            "system<|im_end|>");
}

// No operation takes the marks off.
TEST(JinjaProgramTest, MarksStayWithTheCharacters) {
  const Json input = {{"u", "aBé"}, {"d", {{"aBé", 1}}}};
  for (const auto& [expression, marked] :
       std::vector<std::pair<std::string, std::string>>{
           {"u | upper", "ABÉ"},
           {"u | lower", "abé"},
           {"u.title()", "Abé"},
           {"u[::-1]", "éBa"},
           {"u | reverse", "éBa"},
           {"u | list | join('-')", "a|B|é"},
           {"u.replace('B', '!')", "a|é"},
           {"'xBx'.replace('B', u)", "aBé"},
           {"u | tojson", "aBé"},
           {"u | tojson(ensure_ascii=true)", "aB\\u00e9"},
           {"[u]", "aBé"},
           {"d", "aBé"},
           {"d | tojson", "aBé"},
           {"d.items() | list", "aBé"},
           {"'<%s>' % u", "aBé"},
           {"'<{}>'.format(u)", "aBé"},
           {"'%(aBé)s' % d", ""},
           {"u ~ '+' ~ u", "aBé|aBé"},
           {"u * 2", "aBéaBé"},
           {"u.split('B') | last", "é"},
           {"u.partition('B') | join", "a|é"},
           {"u | indent(2, true)", "aBé"},
           {"u | center(7)", "aBé"},
           {"(u ~ '<') | escape", "aBé"},
           {"u | urlencode", "aB%C3%A9"},
           {"dict(**d)", "aBé"},
           {"namespace(**d)", "aBé"},
           {"strftime_now(u)", "aBé"},
           {"u | string | safe", "aBé"},
           {"[u] | map('upper') | first", "ABÉ"},
           {"{'k': u} | dictsort", "aBé"}}) {
    EXPECT_EQ(FromInput("{{ " + expression + " }}", input),
              expression == "u.partition('B') | join" ? "aBé" : marked)
        << expression;
  }
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
  EXPECT_EQ(Render("{% break %}"),
            "the model's chat template, line 1: 'break' outside loop");
}

TEST(JinjaProgramTest, SaysWhatIsNoTemplate) {
  for (const char* source :
       {"{{ 'open", "{% if x %}", "{{ 1 + }}", "{% what %}",
        "{% for %}{% endfor %}", "{{ ]", "{% endif %}"}) {
    EXPECT_EQ(TryRender(source).status().code(),
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
    EXPECT_THAT(
        Render(source),
        testing::AnyOf(HasSubstr("too much text or work"),
                       HasSubstr("too long"), HasSubstr("Range too big")))
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
        std::string("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}")}) {
    EXPECT_THAT(Render(source),
                testing::AnyOf(HasSubstr("too deeply"), HasSubstr("too long")));
  }
}

// Values that refer to each other or to themselves, in long chains.
TEST(JinjaProgramTest, BoundsWhatValuesContain) {
  EXPECT_EQ(Render("{% set ns = namespace() %}{% set ns.a = ns %}"
                   "{% macro f() %}{{ g }}{% endmacro %}{% set g = f %}ok"),
            "ok");
  EXPECT_EQ(Render("{% set ns = namespace(a=none) %}"
                   "{% for i in range(9999) %}{% set n = namespace(b=ns.a) %}"
                   "{% set ns.a = n %}{% endfor %}ok"),
            "ok");
  for (const char* source :
       {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% for i in range(9999) %}"
        "{% set ns.a = [ns.a] %}{% endfor %}",
        "{% set ns = namespace(a='b') %}{% for i in range(9999) %}"
        "{% set ns.a = ns.a | map('upper') %}{% endfor %}"}) {
    EXPECT_THAT(Render(source), HasSubstr("nest too deeply")) << source;
  }
  // Equal values that share their parts: each level doubles the comparison.
  EXPECT_THAT(
      Render("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(99) %}"
             "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
             "{% endfor %}{{ ns.a == ns.b }}"),
      testing::AnyOf(HasSubstr("too much text or work"),
                     HasSubstr("too long")));
}

TEST(JinjaProgramTest, NamesTheLineOfAnError) {
  EXPECT_EQ(Render("a\n{% if true %}\n{{ m.content + none }}{% endif %}",
                   {{"m", {{"content", "x"}}}}),
            "the model's chat template, line 3: can only concatenate str (not "
            "\"NoneType\") to str");
  EXPECT_EQ(Render("\n{{ m.a.b }}", {{"m", {{"content", "x"}}}}),
            "the model's chat template, line 2: 'dict object' has no attribute "
            "'a'");
  EXPECT_EQ(Render("\n\n{% nonsense %}"),
            "the model's chat template, line 3: Encountered unknown tag "
            "'nonsense'.");
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
