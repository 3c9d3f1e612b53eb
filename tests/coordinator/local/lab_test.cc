// `espalier lab`: JSON in, JSON out.
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/local/lab/lab_command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace espalier::local {
namespace {

using nlohmann::json;
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

TEST(LabTest, DdtreeNamesTheFieldThatIsWrong) {
  const struct {
    const char* in;
    const char* problem;
  } cases[] = {
      {"", "the input must be one JSON object"},
      {"[1]", "the input must be one JSON object"},
      {"{} {}", "the input must be one JSON object"},
      {R"({"nodes": 1})", "needs \"marginals\""},
      {R"({"marginals": []})", "needs \"nodes\""},
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

}  // namespace
}  // namespace espalier::local
