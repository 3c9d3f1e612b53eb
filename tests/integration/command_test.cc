// The `espalier` command against a real cluster and with an engine of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

using nlohmann::json;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest()
      : cluster_({.model = CharModelFolder(),
                  .drafters = LookupAndBigram(),
                  .coordinator_sets = {kWaitForDrafters}}) {
    cluster_.AwaitReady();
  }

  Finished Espalier(std::vector<std::string> args) {
    args.insert(args.begin(), absl::StrCat(ESPALIER_BIN_DIR, "/espalier"));
    return RunToEnd(std::move(args), cluster_.Path("espalier.out"));
  }

  // Returns the JSON object of `generate`, which comes after log lines of
  // --local.
  json Generate(std::vector<std::string> args) {
    args.insert(args.begin(), "generate");
    args.insert(args.end(), {"--prompt", "The king", "--max-tokens", "80",
                             "--ignore-eos", "--json"});
    const Finished finished = Espalier(args);
    EXPECT_EQ(finished.status, 0) << finished.output;
    const size_t start = finished.output.find('{');
    EXPECT_NE(start, std::string::npos) << finished.output;
    return json::parse(finished.output.substr(start), nullptr, false);
  }

  // --local with the character model and its drafters.
  static std::vector<std::string> Local() {
    return {"--local",
            "--set",
            kWaitForDrafters,
            "--set",
            absl::StrCat("verifier.model=", CharModelFolder()),
            "--set",
            "drafters.0.name=lookup",
            "--set",
            "drafters.0.type=prompt_lookup",
            "--set",
            "drafters.1.name=bigram",
            "--set",
            "drafters.1.type=ngram",
            "--set",
            absl::StrCat("drafters.1.options.table=", CharBigramTable())};
  }

  Cluster cluster_;
};

TEST_F(CommandTest, LabReadsAndWritesJson) {
  auto lab = [&](const std::string& input) {
    return RunToEnd({"/bin/sh", "-c",
                     absl::StrCat("echo '", input, "' | ", ESPALIER_BIN_DIR,
                                  "/espalier lab ddtree")},
                    cluster_.Path("lab.out"));
  };
  const Finished tree = lab(R"({"marginals": [[[3, -1.0]]], "nodes": 5})");
  EXPECT_EQ(tree.status, 0) << tree.output;
  EXPECT_EQ(json::parse(tree.output)["tokens"], json({-1, 3}));
  EXPECT_EQ(lab("{}").status, 2);
}

TEST_F(CommandTest, ServicesAndOneProcessSayTheSame) {
  for (const char* temperature : {"0", "1"}) {
    const std::vector<std::string> sampling = {
        "--temperature", temperature, "--seed", "9", "--nodes", "16"};
    std::vector<std::string> remote = {"--address",
                                       cluster_.Address("coordinator")};
    remote.insert(remote.end(), sampling.begin(), sampling.end());
    std::vector<std::string> plain = remote;
    plain.push_back("--no-speculation");
    std::vector<std::string> local = Local();
    local.insert(local.end(), sampling.begin(), sampling.end());

    const json expected = Generate(plain);
    EXPECT_EQ(expected["token_ids"].size(), 80);
    EXPECT_EQ(expected["spec_stats"]["num_draft_tokens"], 0);
    for (const json& out : {Generate(remote), Generate(local)}) {
      EXPECT_EQ(out["token_ids"], expected["token_ids"]);
      EXPECT_EQ(out["text"], expected["text"]);
      EXPECT_EQ(out["finish_reason"], "length");
      EXPECT_GT(out["spec_stats"]["mean_acceptance_length"].get<double>(), 1);
      EXPECT_EQ(out["spec_stats"]["drafters"].size(), 2);
    }
  }
}

TEST_F(CommandTest, CheckFollowsTheService) {
  for (const char* name : {"verifier", "lookup", "bigram", "coordinator"}) {
    EXPECT_EQ(Espalier({"check", cluster_.Address(name)}).status, 0) << name;
  }
  cluster_.Kill("lookup");
  EXPECT_EQ(Espalier({"check", cluster_.Address("lookup")}).status, 1);
}

TEST_F(CommandTest, InfoTellsTheDeviceAndWhatItsPassesCost) {
  const Finished finished =
      Espalier({"info", "--address", cluster_.Address("coordinator")});
  EXPECT_EQ(finished.status, 0) << finished.output;
  // The model takes well under a second, so every row count was measured.
  EXPECT_THAT(finished.output,
              ::testing::ContainsRegex("verifier .* ready .cpu, .*threads"));
  EXPECT_THAT(finished.output,
              ::testing::ContainsRegex("forward     ms by rows: 1: .* 128: "));
}

TEST_F(CommandTest, BenchFindsTheSameTextInEveryMode) {
  WriteFile(cluster_.Path("prompts.jsonl"),
            "{\"id\": \"a\", \"prompt\": \"The duke\"}\n"
            "{\"id\": \"b\", \"prompt\": \"ROSALIND.\"}\n");
  const Finished finished =
      Espalier({"bench", "--prompts", cluster_.Path("prompts.jsonl"), "--modes",
                "plain,union,single:lookup,single:bigram", "--temperature",
                "0,1", "--max-tokens", "40", "--address",
                cluster_.Address("coordinator"), "--json"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  int rows = 0;
  for (size_t at = 0; at < finished.output.size(); ++rows) {
    const size_t end = finished.output.find('\n', at);
    const json row = json::parse(finished.output.substr(at, end - at));
    EXPECT_EQ(row["same_text"], 2) << row;
    EXPECT_GE(row["tau"].get<double>(), 1) << row;
    at = end + 1;
  }
  EXPECT_EQ(rows, 8);
}

TEST_F(CommandTest, TokenizeComesBack) {
  WriteFile(cluster_.Path("lines"), "To be\n");
  const std::string espalier = absl::StrCat(ESPALIER_BIN_DIR, "/espalier");
  const Finished finished =
      RunToEnd({"/bin/sh", "-c",
                absl::StrCat(espalier, " tokenize --model ", CharModelFolder(),
                             " < ", cluster_.Path("lines"), " | ", espalier,
                             " tokenize --decode --model ", CharModelFolder())},
               cluster_.Path("tokenize.out"));
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.output, "To be\n");
}

TEST_F(CommandTest, ABadFieldIsExit2AndNamesIt) {
  const Finished finished =
      Espalier({"generate", "--address", cluster_.Address("coordinator"),
                "--prompt", "x", "--drafters", "nobody"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.output.find("nobody"), std::string::npos);
  EXPECT_NE(finished.output.find("lookup"), std::string::npos)
      << "lists the known drafters: " << finished.output;
}

}  // namespace
}  // namespace espalier::testing
