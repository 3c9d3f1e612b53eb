#include <functional>
#include <string>

#include "coordinator/verifier_link.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

// 9 -> 1 -> 2, and 9 -> 3
TokenTree Tree() {
  TokenTree tree = TokenTree::RootOnly(9);
  tree.Add(0, 1, -1.0f);
  tree.Add(1, 2, -1.0f);
  tree.Add(0, 3, -1.0f);
  return tree;
}

Verdict Good() {
  return {.round = 4, .path = {1, 2}, .tokens = {1, 2, 7}, .rule = "walk"};
}

absl::Status Check(const Verdict& verdict) {
  return CheckVerdict(verdict, /*round=*/4, Tree(), /*vocab_size=*/10);
}

TEST(CheckVerdictTest, AcceptsAPathOfTheTreeAndABonusToken) {
  EXPECT_TRUE(Check(Good()).ok());
  EXPECT_TRUE(Check({.round = 4, .tokens = {0}}).ok());
}

struct Fault {
  const char* name;
  std::function<void(Verdict&)> make;
};

class CheckVerdictFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CheckVerdictFaultTest, IsInternal) {
  Verdict verdict = Good();
  GetParam().make(verdict);
  EXPECT_TRUE(absl::IsInternal(Check(verdict))) << Check(verdict);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, CheckVerdictFaultTest,
    testing::Values(
        Fault{"OtherRound", [](Verdict& v) { v.round = 3; }},
        Fault{"NoTokens", [](Verdict& v) { v.tokens.clear(); }},
        Fault{"NoBonus", [](Verdict& v) { v.tokens.pop_back(); }},
        Fault{"NodeOutsideTheTree", [](Verdict& v) { v.path[1] = 4; }},
        Fault{"NegativeNode", [](Verdict& v) { v.path[0] = -1; }},
        Fault{"RootOnThePath", [](Verdict& v) { v.path[0] = 0; }},
        Fault{"NodesOfTwoBranches", [](Verdict& v) { v.path[1] = 3; }},
        Fault{"TokenOfAnotherNode", [](Verdict& v) { v.tokens[1] = 3; }},
        Fault{"BonusOutsideTheVocabulary",
              [](Verdict& v) { v.tokens[2] = 10; }},
        Fault{"NegativeBonus", [](Verdict& v) { v.tokens[2] = -1; }}),
    [](const auto& suite) { return std::string(suite.param.name); });

}  // namespace
}  // namespace espalier::coordinator
