// tokenize and ngram, with a tokenizer of a few tokens.
#include <string>

#include "drafter/ngram/ngram_table_file.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// One token per character, "ab" merged, and the special token "<e>".
constexpr char kTokenizer[] = R"({
  "version": "1.0",
  "added_tokens": [{"id": 5, "content": "<e>", "single_word": false,
    "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
                    "trim_offsets": true, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true,
              "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null,
    "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": false, "byte_fallback": false,
    "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "<e>": 5},
    "merges": ["a b"]}
})";

class TextCommands : public CliFixture {
 protected:
  const std::string model_ = Write("tokenizer.json", kTokenizer);
};

TEST_F(TextCommands, TokenizePrintsIdsAsGenerateTakesThem) {
  const CliResult result = Run({"tokenize", "--model", model_}, "abc\n\nca<e>");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "4,2\n\n2,0,5\n");
}

TEST_F(TextCommands, TokenizeJsonHasIdsAndText) {
  const CliResult result =
      Run({"tokenize", "--json", "--model", model_}, "abc\n");
  EXPECT_EQ(Json::parse(result.out),
            Json::parse(R"({"token_ids": [4, 2], "text": "abc"})"));
}

TEST_F(TextCommands, TokenizeDecodesIdsHoweverTheyAreParted) {
  const CliResult result = Run({"tokenize", "--decode", "--model", model_},
                               "4,2\n[2, 0,5]\n0 1\n\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "abc\nca<e>\nab\n\n");
}

TEST_F(TextCommands, TokenizeNamesALineThatHoldsNoIds) {
  for (const char* line : {"x", "6", "-1", "99999999999999999999", "1.5"}) {
    const CliResult result = Run({"tokenize", "--decode", "--model", model_},
                                 std::string("0\n") + line);
    EXPECT_EQ(result.code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr("line 2: \"" + std::string(line) +
                                      "\" is not a token id of 0 .. 5"));
  }
}

TEST_F(TextCommands, MissingModelIsExit2) {
  EXPECT_EQ(Run({"tokenize"}, "a").code, 2);
  EXPECT_EQ(Run({"tokenize", "--model", "/no/such"}, "a").code, 2);
}

TEST_F(TextCommands, NgramCountsFilesAsDocuments) {
  const std::string out = (folder_ / "table").string();
  const CliResult result =
      Run({"ngram", "--model", model_, "--text", Write("1.txt", "ccc"),
           "--text", "-", "--out", out},
          "a");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "4 tokens counted into " + out + "\n");
  const auto table = drafter::ReadNgramTable(out);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->order(), 2);
  EXPECT_EQ(table->content().vocab_size, 6);
  EXPECT_NE(table->content().tokenizer_fingerprint, 0u);
  const TokenId c[] = {2};
  const auto after_c = table->Find(c);
  ASSERT_TRUE(after_c.has_value());
  ASSERT_EQ(after_c->successors.size(), 1u);  // c, not the next file's a
  EXPECT_EQ(after_c->successors[0].token, 2);
  EXPECT_EQ(after_c->successors[0].count, 2u);
}

TEST_F(TextCommands, NgramRefusesBadInput) {
  const std::string out = (folder_ / "table").string();
  const std::string text = Write("1.txt", "abc");
  EXPECT_EQ(Run({"ngram", "--model", model_, "--text", text}).code, 2);
  EXPECT_EQ(Run({"ngram", "--model", model_, "--out", out}).code, 2);
  EXPECT_EQ(
      Run({"ngram", "--model", model_, "--text", "/no", "--out", out}).code, 2);
  const CliResult result = Run({"ngram", "--model", model_, "--text", text,
                                "--out", out, "--order", "99"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("order"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace espalier::cli
