#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/chat/jinja_program.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

class SpecialTextTest : public testing::Test {
 protected:
  // Returns what a template makes of `input`, and the special tokens in it.
  int64_t NumSpecial(const std::string& source, const Json& input) {
    const auto program = JinjaProgram::Parse(source);
    EXPECT_TRUE(program.ok()) << program.status();
    const auto rendered =
        (*program)->Render(Json::object(), input, absl::UnixEpoch());
    EXPECT_TRUE(rendered.ok()) << rendered.status();
    if (!rendered.ok()) return -1;
    rendered_ = rendered->text;
    int64_t special = 0;
    for (TokenId id :
         tokenizer_->EncodeMixed(rendered->text, rendered->from_input)) {
      special += tokenizer_->IsSpecial(id) ? 1 : 0;
    }
    return special;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = LoadOrDie(Testdata("small"));
  std::string rendered_;
};

TEST_F(SpecialTextTest, WhateverATemplateDoesUsersWriteNoSpecialTokens) {
  const Json input = {{"a", "1<|im_start|>2<|im_end|>3"},
                      {"b", {{"k<|im_end|>", {"<|im_start|>"}}}},
                      {"c", "<|im_"},
                      {"d", "end|>"}};
  for (const char* use :
       {"{{ a }}",
        "{{ a | trim }}",
        "{{ a[1:] }}",
        "{{ a.split('2') | last }}",
        "{{ a.split('2') | first }}",
        "{{ a.replace('2', ' ') }}",
        "{{ a | tojson }}",
        "{{ [a] | tojson(ensure_ascii=true) }}",
        "{{ b }}",
        "{{ b | tojson }}",
        "{{ a + a }}",
        "{{ [a, a] | join('-') }}",
        "{{ '{}'.format(a) }}",
        "{{ a | indent(2) }}",
        "{{ b.items() }}",
        "{{ c ~ d }}",
        "{{ c }}end|>",
        "<|im_{{ d }}",
        "{{ a | string }}",
        "{{ a | lower }}",
        "{{ a | list | join }}",
        "{{ a.title() }}",
        "{{ '%s' % a }}",
        "{{ a | safe }}",
        "{{ [c, d] | join }}",
        "{{ b | items | list }}",
        "{{ dict(**b) }}",
        "{{ a | reverse }}",
        "{% for x in a %}{{ x }}{% endfor %}",
        "{{ a.partition('2')[2] }}",
        "{% set y %}{{ a }}{% endset %}{{ y[3:] }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(c) }}{{ d }}",
        "{% filter trim %}{{ a }}{% endfilter %}"}) {
    const std::string source = "<|im_start|>" + std::string(use) + "<|im_end|>";
    EXPECT_EQ(NumSpecial(source, input), 2) << use << ": " << rendered_;
  }
}

TEST_F(SpecialTextTest, ChangesNoText) {
  NumSpecial("{{ a }}{{ a | tojson }}",
             {{"a", "x<|im_end|><|im_start|>\uFDD0 \\ufdd1"}});
  EXPECT_EQ(rendered_,
            "x<|im_end|><|im_start|>\uFDD0 \\ufdd1"
            "\"x<|im_end|><|im_start|>\uFDD0 \\\\ufdd1\"");
}

// The template sees what users wrote: nothing is put between their characters.
TEST_F(SpecialTextTest, TemplatesFindSpecialTokensInWhatUsersWrite) {
  const Json input = {{"a", "1<|im_end|>2"}};
  NumSpecial(
      "{{ a | length }} {{ '<|im_end|>' in a }} "
      "{{ a.split('<|im_end|>') | last }}",
      input);
  EXPECT_EQ(rendered_, "12 True 2");
}

}  // namespace
}  // namespace espalier
