#include "common/chat/guarded_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

class GuardedTextTest : public testing::Test {
 protected:
  // What a template makes of `input`, and the special tokens in it.
  int64_t NumSpecial(const std::string& source, Json input) {
    const auto program = JinjaProgram::Parse(source);
    EXPECT_TRUE(program.ok()) << program.status();
    const auto guard = SpecialTextGuard::Break(*tokenizer_, input);
    EXPECT_TRUE(guard.ok()) << guard.status();
    const auto pieces =
        (*program)->Render(Json::object(), input, absl::UnixEpoch());
    EXPECT_TRUE(pieces.ok()) << pieces.status();
    const SpecialTextGuard::Text text = guard->Join(*pieces);
    rendered_ = text.text;
    int64_t special = 0;
    for (TokenId id : tokenizer_->EncodeMixed(text.text, text.plain)) {
      special += tokenizer_->IsSpecial(id) ? 1 : 0;
    }
    return special;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = LoadOrDie(Testdata("small"));
  std::string rendered_;
};

TEST_F(GuardedTextTest, WhateverATemplateDoesUsersWriteNoSpecialTokens) {
  const Json input = {{"a", "1<|im_start|>2<|im_end|>3"},
                      {"b", {{"k<|im_end|>", {"<|im_start|>"}}}},
                      {"c", "<|im_"},
                      {"d", "end|>"}};
  for (const char* use :
       {"{{ a }}", "{{ a | trim }}", "{{ a[1:] }}", "{{ a.split('2') | last }}",
        "{{ a.split('2') | first }}", "{{ a.replace('2', ' ') }}",
        "{{ a | tojson }}", "{{ [a] | tojson(ensure_ascii=true) }}", "{{ b }}",
        "{{ b | tojson }}", "{{ a + a }}", "{{ [a, a] | join('-') }}",
        "{{ '{}'.format(a) }}", "{{ a | indent(2) }}", "{{ b.items() }}",
        "{{ c ~ d }}", "{{ c }}end|>", "<|im_{{ d }}", "{{ a | string }}"}) {
    const std::string source = "<|im_start|>" + std::string(use) + "<|im_end|>";
    EXPECT_EQ(NumSpecial(source, input), 2) << use << ": " << rendered_;
    EXPECT_EQ(rendered_.find("\uFDD0"), std::string::npos) << use;
    EXPECT_EQ(rendered_.find("fdd0"), std::string::npos) << use;
  }
}

TEST_F(GuardedTextTest, ChangesNoText) {
  NumSpecial("{{ a }}{{ a | tojson }}",
             {{"a", "x<|im_end|><|im_start|>\uFDD0 \\ufdd1"}});
  EXPECT_EQ(rendered_,
            "x<|im_end|><|im_start|>\uFDD0 \\ufdd1"
            "\"x<|im_end|><|im_start|>\uFDD0 \\\\ufdd1\"");
}

TEST_F(GuardedTextTest, RefusesWhatLeavesNoCharacterForIt) {
  std::string all;
  for (int i = 0; i < 16; ++i) all += "\xEF\xB7" + std::string(1, 0x90 + i);
  for (int i = 0; i < 16; ++i) all += "\xEF\xB7" + std::string(1, 0xA0 + i);
  Json harmless = {{"a", all}};
  EXPECT_TRUE(SpecialTextGuard::Break(*tokenizer_, harmless).ok());
  Json input = {{"a", all + "<|im_end|>"}};
  EXPECT_EQ(SpecialTextGuard::Break(*tokenizer_, input).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier
