// `espalier lab`: JSON in, JSON out.
#include <cmath>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/app.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lab/lab_command.h"
#include "nlohmann/json.hpp"

namespace espalier::lab {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

Result Lab(std::vector<std::string> args, const std::string& in = "") {
  std::istringstream in_stream(in);
  std::ostringstream out;
  std::ostringstream err;
  cli::Context context{.in = in_stream, .out = out, .err = err};
  args.insert(args.begin(), "lab");
  const std::vector<cli::Command> commands = {LabCommand()};
  const int code = cli::RunApp(commands, context, args);
  return {.code = code, .out = out.str(), .err = err.str()};
}

TEST(LabTest, ListsItsExperiments) {
  const Result help = Lab({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("ddtree"));
  EXPECT_EQ(Lab({"ddtree", "--help"}).code, 0);
  for (const Result& result : {Lab({}), Lab({"oak"})}) {
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("ddtree"));
  }
}

TEST(LabTest, DdtreeIsTheBestTree) {
  // Given unsorted; 5 and 6 tie and stay as they stand.
  const Result result = Lab({"ddtree"}, R"({
      "marginals": [[[4, -2.0], [3, -0.25]], [[5, -1.0], [6, -1.0]]],
      "nodes": 4})");
  ASSERT_EQ(result.code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["tokens"], json({-1, 3, 5, 6, 4}));
  EXPECT_EQ(out["parents"], json({-1, 0, 1, 1, 0}));
  EXPECT_EQ(out["log_probs"], json({0.0, -0.25, -1.25, -1.25, -2.0}));
  EXPECT_NEAR(out["expected_accepted"],
              std::exp(-0.25) + 2 * std::exp(-1.25) + std::exp(-2.0), 1e-12);
}

TEST(LabTest, DdtreeWithoutBudgetOrPositionsIsTheRoot) {
  for (const char* in : {R"({"marginals": [[[1, -1]]], "nodes": 0})",
                         R"({"marginals": [], "nodes": 1024})",
                         R"({"marginals": [[]], "nodes": 1})"}) {
    const Result result = Lab({"ddtree"}, in);
    ASSERT_EQ(result.code, 0) << result.err;
    const json out = json::parse(result.out);
    EXPECT_EQ(out["tokens"].size(), 1u);
    EXPECT_EQ(out["expected_accepted"], 0.0);
  }
}

TEST(LabTest, InputNestedWithoutEndIsRefused) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += open;
    const Result result = Lab({"ddtree"}, deep);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("nested deeper than 64"));
  }
}

TEST(LabTest, DdtreeNamesTheFieldThatIsWrong) {
  const struct {
    const char* in;
    const char* problem;
  } cases[] = {
      {"", "the input"},
      {"[1]", "the input"},
      {"{} {}", "the input"},
      {R"({"nodes": 1})", "marginals: is missing"},
      {R"({"marginals": []})", "nodes: is missing"},
      {R"({"marginals": 3, "nodes": 1})", "marginals: must be a list"},
      {R"({"marginals": [[], 3], "nodes": 1})", "marginals[1]: must be a list"},
      {R"({"marginals": [[[1]]], "nodes": 1})",
       "marginals[0][0]: must be a list of 2"},
      {R"({"marginals": [[[1, -1, 0]]], "nodes": 1})",
       "marginals[0][0]: must be a list of 2"},
      {R"({"marginals": [[[-1, -1]]], "nodes": 1})",
       "marginals[0][0][0]: must be an integer"},
      {R"({"marginals": [[[18446744073709551615, -1]]], "nodes": 1})",
       "marginals[0][0][0]: must be an integer"},
      {R"({"marginals": [[["a", -1]]], "nodes": 1})",
       "marginals[0][0][0]: must be an integer"},
      {R"({"marginals": [[[1, 0.5]]], "nodes": 1})",
       "marginals[0][0][1]: must be a number"},
      {R"({"marginals": [[[1, null]]], "nodes": 1})",
       "marginals[0][0][1]: must be a number"},
      {R"({"marginals": [[[1, -1], [1, -2]]], "nodes": 1})",
       "marginals[0][1]: token 1 is there already"},
      {R"({"marginals": [], "nodes": 1025})",
       "nodes: must be an integer of 0 .. 1024"},
      {R"({"marginals": [], "nodes": -1})", "nodes: must be an integer"},
      {R"({"marginals": [], "nodes": 1.5})", "nodes: must be an integer"},
  };
  for (const auto& test : cases) {
    const Result result = Lab({"ddtree"}, test.in);
    EXPECT_EQ(result.code, 2) << test.in;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(test.problem)) << test.in;
  }
}

constexpr char kTwoTrees[] = R"("trees": [
    {"tokens": [9, 1, 2, 3], "parents": [-1, 0, 1, 0],
     "log_probs": [0, -0.5, -1.5, -2]},
    {"tokens": [9, 1, 4], "parents": [-1, 0, 1],
     "log_probs": [0, -1, -1.25]}])";

TEST(LabTest, MergeSaysWhereEveryNodeWent) {
  const Result disjoint = Lab(
      {"merge"},
      absl::StrCat("{", kTwoTrees, R"(, "policy": "disjoint", "nodes": 16})"));
  ASSERT_EQ(disjoint.code, 0) << disjoint.err;
  json out = json::parse(disjoint.out);
  EXPECT_EQ(out["tokens"], json({9, 1, 2, 3, 1, 4}));
  EXPECT_EQ(out["parents"], json({-1, 0, 1, 0, 0, 4}));
  EXPECT_EQ(out["positions"], json({0, 1, 2, 1, 1, 2}));
  EXPECT_EQ(out["mask"][5], json({1, 0, 0, 0, 1, 1}));
  EXPECT_EQ(out["paths"], json({{0, 1, 2}, {0, 3, -1}, {0, 4, 5}}));
  EXPECT_EQ(out["map"], json({{0, 1, 2, 3}, {0, 4, 5}}));
  EXPECT_EQ(out["provenance"], json({{0, 1}, {0}, {0}, {0}, {1}, {1}}));

  const Result united =
      Lab({"merge"},
          absl::StrCat("{", kTwoTrees, R"(, "policy": "union", "nodes": 2})"));
  ASSERT_EQ(united.code, 0) << united.err;
  out = json::parse(united.out);
  EXPECT_EQ(out["tokens"], json({9, 1, 4}));
  EXPECT_EQ(out["map"], json({{0, 1, -1, -1}, {0, 1, 2}}));
  EXPECT_EQ(out["provenance"], json({{0, 1}, {0, 1}, {1}}));
}

TEST(LabTest, RouteChoosesTheSurestTree) {
  const Result result = Lab({"route"}, absl::StrCat("{", kTwoTrees, "}"));
  ASSERT_EQ(result.code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out["chosen"], 1);
  EXPECT_NEAR(out["scores"][1], (std::exp(-1.0) + std::exp(-1.25)) / 2, 1e-6);
}

TEST(LabTest, TreesThatAreNoneAreNamed) {
  const struct {
    const char* in;
    const char* problem;
  } cases[] = {
      {R"({"trees": []})", "trees: must be 1 .. 64 trees"},
      {R"({"trees": [{"tokens": [1]}]})", "trees[0].parents: is missing"},
      {R"({"trees": [{"tokens": [1, 2], "parents": [-1, 1],
                      "log_probs": [0, 0]}]})",
       "trees[0]: "},
      {R"({"trees": [{"tokens": [1], "parents": [-1], "log_probs": [0]},
                     {"tokens": [2], "parents": [-1], "log_probs": [0]}]})",
       "trees[1]: begins with another root"},
      {R"({"trees": [{"tokens": [1], "parents": [-1], "log_probs": [1]}]})",
       "trees[0].log_probs[0]: must be a number"},
  };
  for (const auto& bad : cases) {
    const Result result = Lab({"route"}, bad.in);
    EXPECT_EQ(result.code, 2) << bad.in;
    EXPECT_THAT(result.err, HasSubstr(bad.problem)) << bad.in;
  }
  const Result result =
      Lab({"merge"},
          absl::StrCat("{", kTwoTrees, R"(, "policy": "oak", "nodes": 2})"));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, ContainsRegex("known: .*budgeted, .*union"));
}

// One draw, p against q: SpS accepts sum min(p, q) = 0.7.
constexpr char kOneSample[] = R"("vocab": 3, "depth": 1,
    "target": {"": [0.2, 0.3, 0.5], "0": [0.1, 0.1, 0.8], "1": [0.6, 0.2, 0.2],
               "2": [0.5, 0.5, 0]},
    "drafters": [{"": [0.4, 0.4, 0.2]}],
    "tree": [{"parent": 0, "drafter": 0, "kind": "sampled"}])";

TEST(LabTest, DistributionIsTheTargetsAndSaysWhatIsAccepted) {
  const Result result =
      Lab({"law"}, absl::StrCat("{", kOneSample, R"(, "rule": "tv-sps"})"));
  ASSERT_EQ(result.code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_LT(out["max_error"], 1e-12);
  EXPECT_NEAR(out["expected_accepted"], 0.7, 1e-6);
  EXPECT_EQ(out["law"].size(), 9u);
  EXPECT_NEAR(out["law"]["1,0"], 0.18, 1e-12);
  EXPECT_EQ(out["law"]["2,2"], 0.0);
}

TEST(LabTest, DistributionTakesChosenAndRestTokens) {
  // The likeliest of 0.4, 0.4, 0.2 is 0; the rest is 2/3, 1/3.
  const Result result = Lab({"law"}, R"({"vocab": 3, "depth": 0,
      "target": {"": [0.2, 0.3, 0.5]}, "drafters": [], "tree": [],
      "rule": "walk"})");
  EXPECT_EQ(result.code, 0) << result.err;
  const Result greedy_plus_one = Lab({"law"}, R"({"vocab": 3, "depth": 1,
      "target": {"": [0.2, 0.3, 0.5], "0": [1, 0, 0], "1": [1, 0, 0],
                 "2": [1, 0, 0]},
      "drafters": [{"": [0.4, 0.4, 0.2]}],
      "tree": [{"parent": 0, "drafter": 0, "kind": "top", "rank": 0},
               {"parent": 0, "drafter": 0, "kind": "rest", "rank": 1}],
      "rule": "lvseq-sps"})");
  ASSERT_EQ(greedy_plus_one.code, 0) << greedy_plus_one.err;
  const json out = json::parse(greedy_plus_one.out);
  EXPECT_LT(out["max_error"], 1e-12);
  EXPECT_NEAR(out["expected_accepted"], 0.2 + 0.3 + 1.0 / 3, 1e-6);
}

TEST(LabTest, DistributionNamesTheFieldThatIsWrong) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string input = absl::StrCat("{", kOneSample, R"(, "rule": "tv-sps"})");
    const size_t at = input.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return input.replace(at, from.size(), to);
  };
  const struct {
    std::string in;
    const char* problem;
  } cases[] = {
      {with("tv-sps", "best"), "rule: unknown rule \"best\"; known: "},
      {with("sampled", "guessed"),
       "tree[0].kind: must be sampled, distinct, top or rest"},
      {with("sampled", "top"), "tree[0].rank: is missing"},
      {with("\"drafter\": 0", "\"drafter\": 1"), "tree[0].drafter: must be"},
      {with("\"parent\": 0", "\"parent\": 1"), "tree[0].parent: must be"},
      {with("0.4, 0.4, 0.2", "0.4, 0.4, 0.3"), "drafters[0].: sums to 1.1"},
      {with("0.4, 0.4, 0.2", "0.4, 0.6"), "drafters[0].: must be a list of 3"},
      {with("{\"\": [0.4, 0.4, 0.2]}", "{}"),
       "drafters[0]: needs the distribution after \"\""},
      {with("\"1\": [0.6, 0.2, 0.2],", ""),
       "target: needs the distribution after"},
      {with("\"1\"", "\"7\""), "target: \"7\" is no context"},
      {with("\"1\"", "\"1,1\""), "target: \"1,1\" is longer than depth"},
      {with("\"vocab\": 3", "\"vocab\": 65"), "vocab: must be an integer"},
  };
  for (const auto& test : cases) {
    const Result result = Lab({"law"}, test.in);
    EXPECT_EQ(result.code, 2) << test.in;
    EXPECT_THAT(result.err, HasSubstr(test.problem)) << test.in;
  }
}

TEST(LabTest, ToyHasARowForEachRuleAndShape) {
  const Result result =
      Lab({"toy", "--seeds", "3", "--trees", "10", "--depth", "2", "--shapes",
           "multichain,complete", "--rules", "tv-gr,lv-gr,lvseq-gr,walk"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json rows = json::parse(result.out);
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(rows[0]["shape"], "multichain");
  EXPECT_EQ(rows[0]["rule"], "tv-gr");
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LT(rows[i]["max_error"], 1e-9);
    EXPECT_NEAR(rows[i]["block_efficiency"],
                1 + rows[i]["accepted"].get<double>(), 1e-12);
    if (i % 4 == 1 || i % 4 == 2) {
      // Over so few drafts but for a little.
      EXPECT_GT(rows[i]["accepted"].get<double>() + 0.02,
                rows[i - 1]["accepted"].get<double>());
    }
  }
  EXPECT_LT(rows[3]["accepted"], 1);
}

TEST(LabTest, ToyNamesTheFlagThatIsWrong) {
  for (const auto& [flag, value, problem] :
       {std::tuple{"--vocab", "1", "--vocab"},
        {"--shapes", "oak", "--shapes: unknown shape \"oak\""},
        {"--schemes", "oak", "--schemes: unknown scheme \"oak\""},
        {"--rules", "oak", "unknown rule \"oak\"; known: bv"},
        {"--rho", "1.5", "--rho"}}) {
    const Result result = Lab({"toy", "--seeds", "1", flag, value});
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr(problem));
  }
}

}  // namespace
}  // namespace espalier::lab
