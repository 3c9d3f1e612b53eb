#include <functional>
#include <string>

#include "coordinator/peers/verifier_link.h"
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

VerifyResult Good() {
  return {.round = 4, .path = {1, 2}, .tokens = {1, 2, 7}, .rule = "walk"};
}

absl::Status Check(const VerifyResult& verify_result) {
  return CheckVerifyResult(verify_result, /*round=*/4, Tree(),
                           /*vocab_size=*/10);
}

TEST(CheckVerifyResultTest, AcceptsAPathOfTheTreeAndABonusToken) {
  EXPECT_TRUE(Check(Good()).ok());
  EXPECT_TRUE(Check({.round = 4, .tokens = {0}}).ok());
}

struct Fault {
  const char* name;
  std::function<void(VerifyResult&)> make;
};

class CheckVerifyResultFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CheckVerifyResultFaultTest, IsInternal) {
  VerifyResult verify_result = Good();
  GetParam().make(verify_result);
  EXPECT_TRUE(absl::IsInternal(Check(verify_result))) << Check(verify_result);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, CheckVerifyResultFaultTest,
    testing::Values(
        Fault{"OtherRound", [](VerifyResult& v) { v.round = 3; }},
        Fault{"NoTokens", [](VerifyResult& v) { v.tokens.clear(); }},
        Fault{"NoBonus", [](VerifyResult& v) { v.tokens.pop_back(); }},
        Fault{"NodeOutsideTheTree", [](VerifyResult& v) { v.path[1] = 4; }},
        Fault{"NegativeNode", [](VerifyResult& v) { v.path[0] = -1; }},
        Fault{"RootOnThePath", [](VerifyResult& v) { v.path[0] = 0; }},
        Fault{"NodesOfTwoBranches",
              [](VerifyResult& v) { v.path[1] = v.tokens[1] = 3; }},
        Fault{"TokenOfAnotherNode", [](VerifyResult& v) { v.tokens[1] = 3; }},
        Fault{"BonusOutsideTheVocabulary",
              [](VerifyResult& v) { v.tokens[2] = 10; }},
        Fault{"NegativeBonus", [](VerifyResult& v) { v.tokens[2] = -1; }}),
    [](const auto& suite) { return std::string(suite.param.name); });

}  // namespace
}  // namespace espalier::coordinator
