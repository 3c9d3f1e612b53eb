#include "common/tokenizer/write_tokenizer_file.h"

#include <gtest/gtest.h>

#include <string>

#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_settings.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

// Every kind of tokenizer that is read, on every text of the golden files.
TEST(WriteTokenizerFileTest, WhatIsReadAgainGivesTheSameIds) {
  const std::vector<std::string> texts = GoldenTexts();
  for (const char* name :
       {"small", "gpt2_style", "qwen2_style", "llama3_style", "gpt4o_style",
        "deepseek_style", "characters", "llama2_style", "mistral_style",
        "gemma_style", "metaspace_style"}) {
    const auto json = ReadTextFile(Testdata(name) / "tokenizer.json");
    ASSERT_TRUE(json.ok()) << json.status();
    const auto file = ParseTokenizerFile(*json);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto again = ParseTokenizerFile(WriteTokenizerFile(*file));
    ASSERT_TRUE(again.ok()) << name << ": " << again.status();
    const auto original = Tokenizer::Create(*file, {});
    const auto copy = Tokenizer::Create(*again, {});
    ASSERT_TRUE(original.ok() && copy.ok()) << name;
    EXPECT_EQ((*copy)->fingerprint(), (*original)->fingerprint()) << name;
    EXPECT_EQ((*copy)->prefix(), (*original)->prefix()) << name;
    for (size_t i = 0; i < texts.size(); i += 3) {
      EXPECT_EQ((*copy)->Encode(texts[i]), (*original)->Encode(texts[i]))
          << name << ", text " << i;
    }
  }
}

}  // namespace
}  // namespace espalier
