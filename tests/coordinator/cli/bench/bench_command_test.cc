#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
using testing::FakeAnswer;

// 9 tokens, 1 in the first message, so 8 in the decoding time after it: plain 1
// token per pass in 80 ms, others 3 per pass in `spec_ms`.
FakeAnswer Scripted(bool speculation, double spec_ms,
                    const std::vector<uint32_t>& ids) {
  FakeAnswer answer;
  answer.messages.resize(2);
  answer.messages[0].add_token_ids(ids[0]);
  answer.messages[1].mutable_token_ids()->Assign(ids.begin() + 1, ids.end());
  v1::GenerateSummary& summary = *answer.messages[1].mutable_summary();
  summary.set_finish_reason(v1::FINISH_REASON_LENGTH);
  v1::SpecStats& stats = *summary.mutable_spec_stats();
  stats.set_num_spec_steps(speculation ? 3 : 9);
  stats.set_mean_acceptance_length(speculation ? 3 : 1);
  stats.set_num_draft_tokens(speculation ? 12 : 0);
  v1::Timing& timing = *summary.mutable_timing();
  timing.set_queue_ms(5);
  timing.set_time_to_first_token_ms(15);
  timing.set_total_ms(15 + (speculation ? spec_ms : 80));
  if (speculation) {
    timing.set_draft_ms(3);
    timing.set_merge_ms(1.5);
    timing.set_verify_ms(30);
    timing.set_wire_ms(6);
  }
  return answer;
}

const std::vector<uint32_t> kText = {1, 2, 3, 4, 1, 2, 3, 4, 5};

std::string ModeOf(const v1::GenerateRequest& request) {
  const v1::SpeculationOptions& speculation = request.speculation();
  if (!speculation.enabled()) return "plain";
  std::string mode = speculation.strategy();
  for (const std::string& drafter : speculation.drafters()) {
    mode += " " + drafter;
  }
  return mode;
}

class BenchCommand : public CliFixture {
 protected:
  BenchCommand() {
    server_.SetScript([](const v1::GenerateRequest& request) {
      const bool single = request.speculation().strategy() == "single";
      return Scripted(request.speculation().enabled(), single ? 40 : 20, kText);
    });
  }

  std::vector<Json> Rows(const std::vector<std::string>& args) {
    std::vector<std::string> all = {"bench", "--json"};
    all.insert(all.end(), args.begin(), args.end());
    const CliResult result = Run(all);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<Json> rows;
    for (absl::string_view line :
         absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      rows.push_back(Json::parse(line.begin(), line.end()));
    }
    return rows;
  }

  const std::string prompts_ =
      Write("mine.jsonl", R"({"id": "a", "chat": "one"})"
                          "\n"
                          R"({"id": "b", "prompt": "two"})"
                          "\n");
};

TEST_F(BenchCommand, ModesTakeTurnsPromptByPrompt) {
  Rows({"--prompts", prompts_, "--modes", "plain,single:lookup,union:x+y",
        "--temperature", "0,1"});
  std::vector<std::string> order;
  for (const auto& request : server_.requests()) {
    order.push_back(ModeOf(request));
  }
  EXPECT_THAT(order, ElementsAre("plain", "single lookup", "union x y",  //
                                 "single lookup", "union x y", "plain",  //
                                 "union x y", "plain", "single lookup",  //
                                 "plain", "single lookup", "union x y"));
}

TEST_F(BenchCommand, AllModesOfAPromptHaveTheSameSeed) {
  Rows({"--prompts", prompts_, "--seed", "40", "--temperature", "1",
        "--max-tokens", "9", "--nodes", "6"});
  ASSERT_EQ(server_.requests().size(), 4u);
  std::vector<uint64_t> seeds;
  for (const auto& request : server_.requests()) {
    seeds.push_back(request.seed());
    EXPECT_EQ(request.temperature(), 1);
    EXPECT_EQ(request.max_tokens(), 9u);
    EXPECT_EQ(request.speculation().max_nodes(), 6u);
  }
  EXPECT_THAT(seeds, ElementsAre(40, 40, 41, 41));
  EXPECT_EQ(server_.requests()[0].chat().messages(0).content(), "one");
  EXPECT_EQ(server_.requests()[2].prompt(), "two");
}

TEST_F(BenchCommand, RowsHoldEveryFieldOfTheContract) {
  const std::vector<Json> rows =
      Rows({"--prompts", prompts_, "--modes", "plain,union", "--nodes", "4"});
  ASSERT_EQ(rows.size(), 2u);
  // Per prompt: 3 rounds; 8 tokens in 20 ms; other = 35 - 5 - 40.5 ms, below
  // zero because the script lets the stages overlap.
  EXPECT_EQ(rows[1], Json::parse(R"({
    "suite": "mine", "mode": "union", "temperature": 0.0, "nodes": 4,
    "tau": 3.0, "tokens_per_s": 400.0, "speedup": 4.0,
    "speedup_error": 0.0, "rounds": 6,
    "nodes_per_round": 4.0, "accepted_at_depth": [],
    "stage_ms": {"draft": 1.0, "merge": 0.5, "verify": 10.0, "wire": 2.0,
                 "other": -3.5},
    "prompts": 2, "same_text": 2, "repetition": 0.16666666666666666})"));
  EXPECT_EQ(rows[0]["mode"], "plain");
  EXPECT_EQ(rows[0]["nodes"], 0);
  EXPECT_EQ(rows[0]["tau"], 1.0);
  EXPECT_EQ(rows[0]["tokens_per_s"], 100.0);
  EXPECT_EQ(rows[0]["speedup"], 1.0);
  EXPECT_EQ(rows[0]["rounds"], 18);
}

TEST_F(BenchCommand, ModeMayNameItsRule) {
  const std::vector<Json> rows =
      Rows({"--prompts", prompts_, "--modes",
            "union,single:lookup@7/lv-rrs,single/walk"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["mode"], "single:lookup@7/lv-rrs");
  EXPECT_EQ(rows[1]["nodes"], 7);
  std::vector<std::string> asked;
  for (const auto& request : server_.requests()) {
    asked.push_back(request.speculation().rule());
  }
  EXPECT_THAT(asked,
              UnorderedElementsAre("", "lv-rrs", "walk", "", "lv-rrs", "walk"));
}

TEST_F(BenchCommand, ModeMayNameItsNodes) {
  const std::vector<Json> rows = Rows({"--prompts", prompts_, "--nodes", "4",
                                       "--modes", "union,single:lookup@7"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["nodes"], 4);
  EXPECT_EQ(rows[1]["nodes"], 7);
  std::vector<uint32_t> asked;
  for (const auto& request : server_.requests()) {
    asked.push_back(request.speculation().max_nodes());
  }
  EXPECT_THAT(asked, UnorderedElementsAre(4, 7, 4, 7));
}

TEST_F(BenchCommand, SpeedupIsAgainstPlainOfTheSameRun) {
  const std::vector<Json> rows =
      Rows({"--prompts", prompts_, "--modes", "union,single:lookup,plain"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["speedup"], 4.0);
  EXPECT_EQ(rows[1]["speedup"], 2.0);
  EXPECT_EQ(rows[2]["speedup"], 1.0);
}

TEST_F(BenchCommand, WithoutPlainThereIsNothingToCompareWith) {
  const std::vector<Json> rows =
      Rows({"--prompts", prompts_, "--modes", "union"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["speedup"].is_null());
  EXPECT_TRUE(rows[0]["same_text"].is_null());
  EXPECT_TRUE(rows[0]["nodes"].is_null());
}

TEST_F(BenchCommand, TextThatDiffersFromPlainIsCountedAndNamed) {
  server_.SetScript([](const v1::GenerateRequest& request) {
    std::vector<uint32_t> ids = kText;
    if (request.speculation().enabled() && request.has_prompt()) ids[5] = 99;
    return Scripted(request.speculation().enabled(), 20, ids);
  });
  const CliResult result = Run({"bench", "--json", "--prompts", prompts_});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr(R"("same_text":1)"));
  EXPECT_THAT(result.err, HasSubstr("prompt b, temperature 0: budgeted "
                                    "differs from plain at token 5"));
}

TEST_F(BenchCommand, LimitCutsEverySuite) {
  const std::vector<Json> rows = Rows({"--prompts", prompts_, "--limit", "1"});
  EXPECT_EQ(rows[0]["prompts"], 1);
  EXPECT_EQ(server_.requests().size(), 2u);
}

TEST_F(BenchCommand, FindsSuitesByNameInTheFolder) {
  Write("math.jsonl", R"({"chat": "1+1"})");
  Write("code.jsonl", R"({"chat": "int"})");
  const std::vector<Json> rows =
      Rows({"--suite-dir", folder_.string(), "--suite", "math,code", "--modes",
            "union"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["suite"], "math");
  EXPECT_EQ(rows[1]["suite"], "code");
  EXPECT_EQ(rows[2]["suite"], "all");
  EXPECT_EQ(rows[2]["prompts"], 2);
  EXPECT_EQ(rows[2]["rounds"],
            rows[0]["rounds"].get<int>() + rows[1]["rounds"].get<int>());
}

// One prompt is faster, the other as much slower.
TEST_F(BenchCommand, CallsASpeedupNoiseThatDiffersMoreThanItIs) {
  server_.SetScript([](const v1::GenerateRequest& request) {
    const bool speculates = request.speculation().enabled();
    const bool first = request.has_chat();
    return Scripted(speculates, speculates ? (first ? 30 : 60) : 40, kText);
  });
  const CliResult result = Run({"bench", "--prompts", prompts_});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr(" ~"));
  EXPECT_THAT(result.out, HasSubstr("~ noise: within two standard errors"));
}

TEST_F(BenchCommand, TableHasTwoLinesOf80ColumnsForEachRow) {
  const CliResult result = Run({"bench", "--prompts", prompts_});
  EXPECT_EQ(result.code, 0);
  const std::vector<std::string> lines =
      absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].size(), lines[1].size());
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(lines[3], HasSubstr("budgeted"));
  EXPECT_THAT(lines[3], HasSubstr("400.00"));
  EXPECT_THAT(lines[3], HasSubstr("2/2"));
  EXPECT_THAT(lines[4], HasSubstr("verify "));
}

TEST_F(BenchCommand, FailureNamesPromptAndMode) {
  server_.SetScript([](const v1::GenerateRequest&) {
    return FakeAnswer{.status = testing::BadRequestStatus(
                          "unknown strategy \"unoin\"", "strategy", "?")};
  });
  const CliResult result =
      Run({"bench", "--prompts", prompts_, "--modes", "unoin"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("prompt a, mode unoin: INVALID_ARGUMENT: unknown"));
}

TEST_F(BenchCommand, InterruptEndsTheRun) {
  server_.SetScript([this](const v1::GenerateRequest&) {
    interrupt_.request_stop();
    return FakeAnswer{.hang = true};
  });
  EXPECT_EQ(Run({"bench", "--prompts", prompts_}).code, 130);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(BenchCommand, BadInputIsExit2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--modes", "plain,plain"}, "--modes: \"plain\" is there twice"},
      {{"--modes", "single:"}, "--modes: \"single:\" is not plain or STRATEGY"},
      {{"--modes", ":lookup"}, "is not plain or STRATEGY"},
      {{"--modes", "plain:lookup"}, "is not plain or STRATEGY"},
      {{"--modes", "union@many"}, "is not plain or STRATEGY"},
      {{"--modes", "plain@4"}, "is not plain or STRATEGY"},
      {{"--modes", "plain/walk"}, "is not plain or STRATEGY"},
      {{"--modes", "union/"}, "is not plain or STRATEGY"},
      {{"--modes", ""}, "--modes: in \"\": an element is empty"},
      {{"--limit", "0"}, "--limit: must be above 0"},
      {{"--prompts", "/no/such.jsonl"}, "cannot open /no/such.jsonl"},
      {{"--prompts", Write("empty.jsonl", "\n \n")}, "empty: no prompts"},
      {{"--suite", "chat"}, "no prompt suites in"},
      {{"--suite-dir", "/no", "--suite", "x"}, "cannot open /no/x.jsonl"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> args = {"bench"};
    args.insert(args.end(), flags.begin(), flags.end());
    const CliResult result = Run(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  EXPECT_TRUE(server_.requests().empty());
}

}  // namespace
}  // namespace espalier::cli
