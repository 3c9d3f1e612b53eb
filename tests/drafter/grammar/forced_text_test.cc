#include "drafter/grammar/forced_text.h"

#include "gtest/gtest.h"
#include "tests/common/grammar/test_vocabulary.h"

namespace espalier::drafter {
namespace {

using Kind = GrammarSpec::Kind;

ForcedText Forced(const GrammarSpec& spec, const std::string& written,
                  const ForcedTextFinder::Limits& limits = {
                      .time = absl::Seconds(100)}) {
  static const grammar::Vocabulary vocabulary = grammar::ByteVocabulary();
  static const auto backend = grammar::NewBackend(vocabulary);
  const auto grammar = backend->Compile(spec, {});
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  const auto matcher = (*grammar)->NewMatcher();
  const auto forced =
      ForcedTextFinder(vocabulary)
          .After(grammar::Bytes(written), written, limits, *matcher);
  EXPECT_TRUE(forced.ok()) << forced.status();
  return *forced;
}

GrammarSpec Schema(bool compact) {
  return {
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"name":{"type":"string"},"ok":{"type":"boolean"}},"required":["name","ok"],"additionalProperties":false})",
      .compact = compact};
}

TEST(ForcedText, IsWhatHasNoAlternative) {
  EXPECT_EQ(Forced(Schema(true), "").bytes, R"({"name": ")");
  EXPECT_EQ(Forced(Schema(true), R"({"name": "x")").bytes, R"(, "ok": )");
  EXPECT_EQ(Forced(Schema(true), R"({"name": "x)").bytes, "");
  EXPECT_EQ(Forced(Schema(true), R"({"name": "x", "ok": t)").bytes, "rue}");
}

TEST(ForcedText, TellsWhetherTheOutputCanOnlyEnd) {
  EXPECT_TRUE(Forced(Schema(true), R"({"name": "x", "ok": t)").at_end);
  EXPECT_FALSE(Forced(Schema(true), R"({"name": "x")").at_end);
  const GrammarSpec digits = {.kind = Kind::kRegex, .text = "a[0-9]*"};
  EXPECT_EQ(Forced(digits, "").bytes, "a");
  EXPECT_FALSE(Forced(digits, "a").at_end);
}

// If white space is free, the text's own is taken.
TEST(ForcedText, LaysOutAsTheTextDoes) {
  EXPECT_EQ(Forced(Schema(false), "{").bytes, R"("name": ")");
  EXPECT_EQ(Forced(Schema(false), R"({"name": "x")").bytes, R"(, "ok":)");
  const GrammarSpec texts = {
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},"required":["a","b","c"],"additionalProperties":false})"};
  EXPECT_EQ(Forced(texts, R"({"a": "x", "b": "y")").bytes, R"(, "c": ")");
  EXPECT_EQ(Forced(texts, "{\"a\":\"x\",\n\"b\":\"y\"").bytes, ",\n\"c\":\"");
}

TEST(ForcedText, IsBounded) {
  const GrammarSpec long_text = {.kind = Kind::kChoice,
                                 .choices = {std::string(500, 'x')}};
  EXPECT_EQ(
      Forced(long_text, "", {.bytes = 40, .time = absl::Seconds(100)}).bytes,
      std::string(40, 'x'));
}

}  // namespace
}  // namespace espalier::drafter
