// Structured output as the rest of the product sees it, whatever library does
// it.
#include "common/grammar/grammar.h"

#include <algorithm>
#include <random>

#include "common/grammar/vocabulary.h"
#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/grammar/test_vocabulary.h"

namespace espalier::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = GrammarSpec::Kind;

const std::vector<std::string> kWords = {"yes", "no", "\":", "{\"", "ab"};
const TokenId kEnd = 256 + 5, kOtherEnd = kEnd + 1, kNoText = kEnd + 2;

const Backend& TestBackend() {
  static const std::unique_ptr<Backend> backend =
      NewBackend(ByteVocabulary(kWords));
  return *backend;
}

std::unique_ptr<Matcher> MatcherOf(const GrammarSpec& spec) {
  const auto grammar = TestBackend().Compile(spec, {});
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return (*grammar)->NewMatcher();
}

TokenMasks MaskAfter(Matcher& matcher, absl::Span<const TokenId> output) {
  EXPECT_TRUE(matcher.Follow(output).ok());
  return *matcher.MasksOf(TokenTree::RootOnly(0), absl::InfiniteDuration());
}

bool Takes(const GrammarSpec& spec, std::string_view text) {
  const auto matcher = MatcherOf(spec);
  std::vector<TokenId> output = Bytes(text);
  output.push_back(kEnd);
  return matcher->Follow(output).ok();
}

TEST(Grammar, EveryKindTakesItsTextsAndNoOthers) {
  const GrammarSpec object = {.kind = Kind::kJsonObject};
  EXPECT_TRUE(Takes(object, R"({"a": [1, null]})"));
  EXPECT_FALSE(Takes(object, "[]"));
  const GrammarSpec schema = {
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})"};
  EXPECT_TRUE(Takes(schema, R"({ "n" :-12})"));
  EXPECT_FALSE(Takes(schema, R"({"n":1.5})"));
  EXPECT_FALSE(Takes(schema, R"({"n":1,"m":2})"));
  const GrammarSpec regex = {.kind = Kind::kRegex, .text = "[0-9]{2}:[0-9]{2}"};
  EXPECT_TRUE(Takes(regex, "09:30"));
  EXPECT_FALSE(Takes(regex, "9:30"));
  const GrammarSpec choice = {.kind = Kind::kChoice,
                              .choices = {"yes", "no", "a \"b\"\n\\"}};
  EXPECT_TRUE(Takes(choice, "no"));
  EXPECT_TRUE(Takes(choice, "a \"b\"\n\\"));
  EXPECT_FALSE(Takes(choice, "yesno"));
  const GrammarSpec ebnf = {.kind = Kind::kEbnf,
                            .text = "root ::= \"(\" root \")\" | \"x\""};
  EXPECT_TRUE(Takes(ebnf, "((x))"));
  EXPECT_FALSE(Takes(ebnf, "((x)"));
  const GrammarSpec tag = {
      .kind = Kind::kStructuralTag,
      .text =
          R"({"type":"structural_tag","format":{"type":"tag","begin":"<f>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":"</f>"}})"};
  EXPECT_TRUE(Takes(tag, "<f>17</f>"));
  EXPECT_FALSE(Takes(tag, "<f>x</f>"));
}

// What was reported as not followed.
TEST(Grammar, TextsThatWereOnceWrong) {
  const auto schema = [](const std::string& text) {
    return GrammarSpec{.kind = Kind::kJsonSchema, .text = text};
  };
  const GrammarSpec bounded =
      schema(R"({"type":"string","minLength":2,"maxLength":6})");
  EXPECT_FALSE(Takes(bounded, "\":|\x1c\""));
  EXPECT_FALSE(Takes(bounded, "\"a\nb\""));
  EXPECT_FALSE(Takes(bounded, "\"ab\xED\xA0\x80\""));
  EXPECT_FALSE(Takes(bounded, "\"\\n\""));
  EXPECT_TRUE(Takes(bounded, "\"\\n\\u00e9\\\"\""));
  EXPECT_FALSE(Takes(bounded, "\"\\ud83dabc\""));
  EXPECT_TRUE(Takes(bounded, "\"\\ud83d\\ude00a\""));
  const GrammarSpec quote = schema(R"({"type":"string","pattern":"^a\"b$"})");
  EXPECT_TRUE(Takes(quote, R"("a\"b")"));
  EXPECT_FALSE(Takes(quote, R"("a"b")"));
  const GrammarSpec required = schema(
      R"({"type":"object","properties":{"a":{"type":"boolean"}},"required":["b"]})");
  EXPECT_FALSE(Takes(required, R"({"a": true})"));
  EXPECT_TRUE(Takes(required, R"({"a": true, "b": 1})"));
  const GrammarSpec hex = {.kind = Kind::kRegex, .text = "\\x41b"};
  EXPECT_TRUE(Takes(hex, "Ab"));
  EXPECT_FALSE(Takes(hex, "\xD0\x9B"));
  const GrammarSpec ebnf = {.kind = Kind::kEbnf,
                            .text = "root ::= \"\\x41b\\\\x\" [\\x41b]"};
  EXPECT_TRUE(Takes(ebnf, "Ab\\xb"));
  EXPECT_FALSE(Takes({.kind = Kind::kRegex, .text = "[^a]"}, "\xED\xA0\x80"));
  EXPECT_FALSE(
      Takes({.kind = Kind::kEbnf, .text = "root ::= [^a]"}, "\xED\xA0\x80"));
}

// Repetitions are written as chains of rules, in blocks of 64.
TEST(Grammar, RepeatsAreCounted) {
  struct Bounds {
    int least = 0;
    int most = 0;  // -1: none
  };
  for (const auto& [least, most] : std::vector<Bounds>{{0, 3},
                                                       {2, 5},
                                                       {0, 63},
                                                       {0, 64},
                                                       {64, 64},
                                                       {63, 65},
                                                       {5, 300},
                                                       {128, 200},
                                                       {0, -1},
                                                       {1, -1},
                                                       {70, -1}}) {
    const std::string limit = most < 0 ? "" : absl::StrCat(most);
    const GrammarSpec regex = {
        .kind = Kind::kRegex,
        .text = absl::StrCat("x([a-c]|de){", least, ",", limit, "}y")};
    const GrammarSpec string = {
        .kind = Kind::kJsonSchema,
        .text = absl::StrCat(
            R"({"type":"string","minLength":)", least,
            most < 0 ? "" : absl::StrCat(",\"maxLength\":", most), "}")};
    for (const int size : {0, 1, least - 1, least, least + 1, least + 40,
                           most - 1, most, most + 1}) {
      if (size < 0) continue;
      const bool fits = size >= least && (most < 0 || size <= most);
      std::string letters, characters;
      for (int i = 0; i < size; ++i) {
        letters += i % 3 == 0 ? "de" : "b";
        characters += i % 4 == 0 ? "\\n" : i % 4 == 1 ? "\\u00e9" : "d";
      }
      EXPECT_EQ(Takes(regex, "x" + letters + "y"), fits)
          << size << " of " << regex.text;
      EXPECT_EQ(Takes(string, '"' + characters + '"'), fits)
          << size << " of " << string.text;
    }
  }
}

// With many words, each step was more work than one may take.
TEST(Grammar, LongStringsOfALargeVocabularyHaveMasks) {
  const auto backend = NewBackend(LargeVocabulary(30'000));
  const auto grammar = backend->Compile(
      {.kind = Kind::kJsonSchema,
       .text = R"({"type":"string","minLength":200,"maxLength":300})"},
      {});
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const auto matcher = (*grammar)->NewMatcher();
  std::vector<TokenId> output = Bytes("\"");
  for (int i = 0; i < 250; ++i) {
    output.push_back('a');
    EXPECT_EQ(MaskAfter(*matcher, output).Allows(0, '"'), i >= 199) << i;
  }
}

TEST(Grammar, WhiteSpaceOfJsonEnds) {
  for (const GrammarSpec& spec : std::vector<GrammarSpec>{
           {.kind = Kind::kJsonObject},
           {.kind = Kind::kJsonSchema,
           .text = R"({"properties":{"a":{"type":"array"}}})"}}) {
    EXPECT_TRUE(Takes(spec, "{\n  \"a\": [\n\t\t1,\n    2]}"));
    EXPECT_TRUE(Takes(spec, "{ \"a\" : [1, 2] }"));
    EXPECT_FALSE(Takes(spec, "{  \"a\": []}"));
    EXPECT_FALSE(Takes(spec, "{\n\n\"a\": []}"));
    EXPECT_FALSE(Takes(spec, "{\n" + std::string(65, ' ') + "\"a\": []}"));
    EXPECT_FALSE(Takes(spec, "{}\n"));
  }
}

TEST(Grammar, CompactJsonHasOneLayout) {
  GrammarSpec spec = {.kind = Kind::kJsonObject};
  EXPECT_TRUE(Takes(spec, "{\n}"));
  spec.compact = true;
  EXPECT_FALSE(Takes(spec, "{\n}"));
}

TEST(Grammar, WhatCannotBeFollowedIsRefusedByName) {
  const auto refusal = [](Kind kind, const std::string& text) {
    return TestBackend().Compile({.kind = kind, .text = text}, {}).status();
  };
  for (const auto& [kind, text] : std::vector<std::pair<Kind, std::string>>{
           {Kind::kJsonSchema, "{"},
           {Kind::kJsonSchema, R"({"type":"nothing"})"},
           {Kind::kJsonSchema, R"({"uniqueItems":true})"},
           {Kind::kJsonSchema, R"({"type":"number","multipleOf":0.1})"},
           {Kind::kJsonSchema, R"({"allOf":[{"type":"null"},{"const":1}]})"},
           {Kind::kJsonSchema, R"({"$ref":"other.json"})"},
           {Kind::kRegex, "(?=a)b"},
           {Kind::kRegex, "(a"},
           {Kind::kRegex, "a^b"},
           {Kind::kEbnf, "x ::= \"a\""},
           {Kind::kEbnf, "root ::= nothing"},
           {Kind::kStructuralTag, "{}"}}) {
    const absl::Status status = refusal(kind, text);
    EXPECT_EQ(FieldOf(status), FieldOf(kind)) << text << ": " << status;
  }
  EXPECT_THAT(
      std::string(
          refusal(Kind::kJsonSchema, R"({"uniqueItems":true})").message()),
      HasSubstr("uniqueItems"));
}

TEST(Grammar, MasksHaveTheTokensThatGoOn) {
  const auto matcher =
      MatcherOf({.kind = Kind::kChoice, .choices = {"yes", "no"}});
  EXPECT_THAT(MaskAfter(*matcher, {}).Allowed(0),
              ElementsAre('n', 'y', 256, 257));
  EXPECT_THAT(MaskAfter(*matcher, Bytes("ye")).Allowed(0), ElementsAre('s'));
}

TEST(Grammar, AtItsEndOnlyTheEndIsAllowed) {
  const auto matcher = MatcherOf({.kind = Kind::kChoice, .choices = {"no"}});
  for (const std::vector<TokenId>& output :
       {std::vector<TokenId>{257}, {257, kEnd}, {257, kEnd, kOtherEnd}}) {
    EXPECT_THAT(MaskAfter(*matcher, output).Allowed(0),
                ElementsAre(kEnd, kOtherEnd));
  }
  EXPECT_FALSE(matcher->Follow({257, kEnd, 257}).ok());
  EXPECT_FALSE(matcher->Follow({kEnd}).ok());
}

// The vocabulary cannot say what the grammar wants.
TEST(Grammar, ADeadEndIsAnEnd) {
  Vocabulary vocabulary = {.tokens = {"a", "<end>"}, .end_tokens = {1}};
  const auto backend = NewBackend(vocabulary);
  const auto grammar =
      backend->Compile({.kind = Kind::kRegex, .text = "aab"}, {});
  const auto matcher = (*grammar)->NewMatcher();
  EXPECT_THAT(MaskAfter(*matcher, {0}).Allowed(0), ElementsAre(0));
  EXPECT_THAT(MaskAfter(*matcher, {0, 0}).Allowed(0), ElementsAre(1));
  EXPECT_THAT(MaskAfter(*matcher, {0, 0, 1}).Allowed(0), ElementsAre(1));
}

TEST(Grammar, SpecialTokensAreNoText) {
  const auto matcher = MatcherOf({.kind = Kind::kRegex, .text = "[^x]*"});
  const TokenMasks mask = MaskAfter(*matcher, {});
  EXPECT_FALSE(mask.Allows(0, kNoText));
  EXPECT_FALSE(mask.Allows(0, 'x'));
  EXPECT_TRUE(mask.Allows(0, 'y'));
  EXPECT_TRUE(mask.Allows(0, kEnd));
}

TEST(Grammar, ATreeHasTheMasksOfItsPaths) {
  const auto matcher = MatcherOf({.kind = Kind::kRegex, .text = "(ab|b)*c"});
  ASSERT_TRUE(matcher->Follow(Bytes("b")).ok());
  TokenTree tree = TokenTree::RootOnly('b');
  const int32_t a = tree.Add(0, 'a', 0);
  const int32_t c = tree.Add(0, 'c', 0);
  const int32_t ab = tree.Add(a, 'b', 0);
  const int32_t wrong = tree.Add(a, 'a', 0);
  const int32_t after_wrong = tree.Add(wrong, 'b', 0);
  const int32_t end = tree.Add(c, kEnd, 0);
  const TokenId word = 256 + 4;  // "ab"
  const int32_t copy = tree.Add(0, word, 0);
  const TokenMasks masks = *matcher->MasksOf(tree, absl::InfiniteDuration());
  EXPECT_EQ(masks.num_rows(), tree.num_nodes());
  EXPECT_THAT(masks.Allowed(0), ElementsAre('a', 'b', 'c', word));
  EXPECT_THAT(masks.Allowed(a), ElementsAre('b'));
  EXPECT_THAT(masks.Allowed(ab), ElementsAre('a', 'b', 'c', word));
  EXPECT_THAT(masks.Allowed(copy), ElementsAre('a', 'b', 'c', word));
  EXPECT_THAT(masks.Allowed(c), ElementsAre(kEnd, kOtherEnd));
  EXPECT_THAT(masks.Allowed(end), ElementsAre(kEnd, kOtherEnd));
  EXPECT_THAT(masks.Allowed(wrong), ElementsAre(kEnd, kOtherEnd));
  EXPECT_THAT(masks.Allowed(after_wrong), ElementsAre(kEnd, kOtherEnd));
  // It did not move.
  EXPECT_THAT(MaskAfter(*matcher, Bytes("b")).Allowed(0),
              ElementsAre('a', 'b', 'c', word));
}

// The place is a function of the output, whatever was followed before.
TEST(Grammar, APlaceDependsOnTheOutputAlone) {
  const GrammarSpec spec = {
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"boolean"}},"b":{"type":"string"}},"required":["a","b"]})"};
  const auto grammar = *TestBackend().Compile(spec, {});
  std::mt19937 random(5);
  std::vector<std::vector<TokenId>> outputs;
  for (int i = 0; i < 12; ++i) {
    const auto fresh = grammar->NewMatcher();
    std::vector<TokenId>& output = outputs.emplace_back();
    for (int length = static_cast<int>(random() % 30); length > 0; --length) {
      const auto allowed = MaskAfter(*fresh, output).Allowed(0);
      output.push_back(allowed[random() % allowed.size()]);
    }
  }
  const auto moving = grammar->NewMatcher();
  for (int i = 0; i < 100; ++i) {
    std::vector<TokenId> output = outputs[random() % outputs.size()];
    output.resize(random() % (output.size() + 1));
    const auto fresh = grammar->NewMatcher();
    EXPECT_EQ(MaskAfter(*moving, output).Allowed(0),
              MaskAfter(*fresh, output).Allowed(0));
  }
}

TEST(Grammar, AfterARefusedOutputItGoesOn) {
  const auto matcher = MatcherOf({.kind = Kind::kRegex, .text = "a*b"});
  EXPECT_FALSE(matcher->Follow(Bytes("aac")).ok());
  EXPECT_TRUE(matcher->Follow(Bytes("aab")).ok());
  EXPECT_FALSE(matcher->Follow({-1}).ok());
  EXPECT_FALSE(matcher->Follow({100000}).ok());
  EXPECT_TRUE(matcher->Follow({}).ok());
}

TEST(Grammar, OutOfTimeATreeIsItsRoot) {
  const auto matcher = MatcherOf({.kind = Kind::kRegex, .text = "[a-z]*"});
  TokenTree tree = TokenTree::RootOnly(0);
  tree.Add(0, 'a', 0);
  const auto masks = matcher->MasksOf(tree, absl::Nanoseconds(1));
  ASSERT_EQ(masks->num_rows(), 1);
  EXPECT_TRUE(masks->Allows(0, 'q'));
}

TEST(Grammar, AnAmbiguousGrammarEndsWithAnError) {
  const auto matcher = MatcherOf(
      {.kind = Kind::kEbnf, .text = "root ::= s\ns ::= s s | [a-z ] | \"\""});
  absl::Status status;
  std::vector<TokenId> output;
  while (status.ok() && output.size() < 400) {
    output.push_back('a');
    status = matcher->Follow(output);
    if (status.ok()) {
      status =
          matcher->MasksOf(TokenTree::RootOnly(0), absl::Seconds(1)).status();
    }
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << output.size();
  // The matcher begins anew.
  EXPECT_TRUE(matcher->Follow(Bytes("abc")).ok());
  EXPECT_TRUE(MaskAfter(*matcher, Bytes("ab")).Allows(0, 'z'));
}

TEST(Grammar, BombsAreRefusedBeforeOrWhileTheyAreCompiled) {
  for (
      const GrammarSpec& spec : std::vector<GrammarSpec>{
          {.kind = Kind::kJsonSchema,
        .text =
               R"({"type":"string","pattern":"^([a-z]{0,30}[0-9]{0,30}){0,30}$"})"},
          {.kind = Kind::kRegex, .text = "([a-z]{0,30}[0-9]{0,30}){0,30}"},
          {.kind = Kind::kStructuralTag,
          .text =
               R"({"type":"structural_tag","format":{"type":"regex","pattern":"([a-z]{0,30}[0-9]{0,30}){0,30}"}})"}}) {
    const absl::Status status = TestBackend().Compile(spec, {}).status();
    EXPECT_EQ(FieldOf(status), FieldOf(spec.kind)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("automaton"));
  }
  const GrammarSpec bomb = {.kind = Kind::kEbnf,
                            .text = "root ::= ([a-z]{0,30} [0-9]{0,30}){0,30}"};
  const absl::Status stopped =
      TestBackend().Compile(bomb, {.work = 10'000}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(stopped)) << stopped;
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(
      absl::IsCancelled(TestBackend().Compile(bomb, {.stop = &stop}).status()));
}

TEST(Grammar, AStoppedMatcherDoesNothing) {
  const auto grammar =
      TestBackend().Compile({.kind = Kind::kRegex, .text = "a*"}, {});
  std::atomic<bool> stop = false;
  const auto matcher = (*grammar)->NewMatcher(&stop);
  EXPECT_TRUE(matcher->Follow(Bytes("aa")).ok());
  stop = true;
  EXPECT_TRUE(absl::IsCancelled(matcher->Follow(Bytes("aaa"))));
}

// Deep, long and ambiguous texts end with an answer, and in time.
TEST(Grammar, HostileTextsAreAnswered) {
  std::string chain = "root ::= a0\n", enumeration = "{\"enum\":[0", deep;
  for (int i = 0; i < 400; ++i) {
    chain += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + "\n";
    enumeration += ",\"v" + std::to_string(i) + "\"";
  }
  chain += "a400 ::= \"x\"";
  enumeration += "]}";
  for (int i = 0; i < 63; ++i) deep += "(";
  deep += "a";
  for (int i = 0; i < 63; ++i) deep += ")*";
  for (const GrammarSpec& spec : std::vector<GrammarSpec>{
           {.kind = Kind::kEbnf, .text = chain},
           {.kind = Kind::kEbnf, .text = "root ::= root root | \"a\" | \"\""},
           {.kind = Kind::kEbnf, .text = "root ::= root | \"\""},
           {.kind = Kind::kRegex, .text = "[ab]*a[ab]{14}"},
           {.kind = Kind::kRegex, .text = deep},
           {.kind = Kind::kJsonSchema, .text = R"({"$ref":"#"})"},
           {.kind = Kind::kJsonSchema, .text = enumeration}}) {
    const auto grammar = TestBackend().Compile(spec, {});
    if (!grammar.ok()) continue;
    const auto matcher = (*grammar)->NewMatcher();
    for (std::vector<TokenId> output; output.size() < 40;) {
      const absl::Status followed = matcher->Follow(output);
      if (absl::IsResourceExhausted(followed)) break;
      const auto mask =
          matcher->MasksOf(TokenTree::RootOnly(0), absl::InfiniteDuration());
      if (absl::IsResourceExhausted(mask.status())) break;
      const auto allowed = mask->Allowed(0);
      ASSERT_FALSE(allowed.empty());
      output.push_back(allowed[0]);
    }
  }
  std::string too_deep(65, '(');
  EXPECT_EQ(FieldOf(TestBackend()
                        .Compile({.kind = Kind::kRegex, .text = too_deep}, {})
                        .status()),
            "structured_output.regex");
}

}  // namespace
}  // namespace espalier::grammar
