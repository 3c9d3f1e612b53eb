#include "common/speculation/grammar_spec.h"

#include "common/speculation/request_errors.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using Kind = GrammarSpec::Kind;

bool IsValid(Kind kind, const std::string& text) {
  return ValidateGrammarSpec({.kind = kind, .text = text}).ok();
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(GrammarSpec, SizesAreBounded) {
  EXPECT_TRUE(ValidateGrammarSpec({}).ok());
  EXPECT_TRUE(ValidateGrammarSpec({.kind = Kind::kJsonObject}).ok());
  EXPECT_FALSE(IsValid(Kind::kRegex, ""));
  EXPECT_TRUE(IsValid(Kind::kRegex, std::string(kMaxGrammarBytes, 'a')));
  EXPECT_FALSE(IsValid(Kind::kRegex, std::string(kMaxGrammarBytes + 1, 'a')));
  GrammarSpec choice = {.kind = Kind::kChoice};
  EXPECT_FALSE(ValidateGrammarSpec(choice).ok());
  choice.choices.assign(kMaxGrammarChoices, "a");
  EXPECT_TRUE(ValidateGrammarSpec(choice).ok());
  choice.choices.push_back("a");
  EXPECT_EQ(FieldOf(ValidateGrammarSpec(choice)), "structured_output.choice");
  EXPECT_FALSE(
      ValidateGrammarSpec({.kind = Kind::kChoice, .choices = {"a", ""}}).ok());
}

TEST(GrammarSpec, DepthIsOfBracketsThatMeanSomething) {
  EXPECT_TRUE(IsValid(Kind::kRegex, Times(64, "(") + Times(64, ")")));
  EXPECT_FALSE(IsValid(Kind::kRegex, Times(65, "(")));
  EXPECT_TRUE(IsValid(Kind::kRegex, Times(100, "\\(")));
  EXPECT_TRUE(IsValid(Kind::kRegex, "[" + Times(100, "(") + "]"));
  EXPECT_TRUE(IsValid(Kind::kRegex, Times(100, "(a)")));
  EXPECT_FALSE(IsValid(Kind::kJsonSchema, Times(65, "[")));
  EXPECT_TRUE(IsValid(Kind::kJsonSchema, "[\"" + Times(100, "[") + "\"]"));
  EXPECT_TRUE(IsValid(Kind::kJsonSchema, "[\"\\\"" + Times(100, "[") + "\"]"));
  EXPECT_TRUE(IsValid(Kind::kEbnf, "root ::= \"" + Times(100, "(") + "\""));
  EXPECT_FALSE(IsValid(Kind::kEbnf, "root ::= " + Times(65, "(")));
}

TEST(GrammarSpec, RepetitionsWithinRepetitionsAreBounded) {
  for (const char* regex :
       {"a{1,1000000}", "([0-9]{1,3}\\.){3}[0-9]{1,3}", "([a-z]+ ){1,100}",
        "(a{1,10}){1,100}", "a{100}b{100}(c{100})d{100}", "(\\(a{99}\\)){9}",
        "({1,x}){1,}", "a{", ")){5}", "(a{2}){3,}", "(((a*)*)*)"}) {
    EXPECT_TRUE(IsValid(Kind::kRegex, regex)) << regex;
  }
  for (const char* regex :
       {"(a{1,90}){1,100}", "((a{30}b){30}c|d){30}", "(a+){1000}",
        "(((([a-z]*)*)*)*)*", "((a{99}|b)c?){99}", "(a{9999999999}){2}"}) {
    EXPECT_FALSE(IsValid(Kind::kRegex, regex)) << regex;
  }
  EXPECT_FALSE(IsValid(Kind::kJsonSchema,
                       R"({"enum":["["],"pattern":"^(a{1,100}){1,100}$"})"));
  EXPECT_TRUE(
      IsValid(Kind::kJsonSchema, R"({"a":{"minItems":100,"maxItems":9000}})"));
}

}  // namespace
}  // namespace espalier
