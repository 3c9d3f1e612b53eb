// Draft heads against an independent implementation: make_fixtures.py made tiny
// random checkpoints in every published layout, and wrote down which trees its
// own plain numpy code drafts from them.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drafter/drafters.h"
#include "drafter/engine/drafter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/source_path.h"

namespace espalier::drafter {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kFixtures = SourcePath("tests/drafter/golden/fixtures");

Json ReadJson(const fs::path& path) { return Json::parse(std::ifstream(path)); }

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    const std::string name = entry.path().filename().string();
    if (name != "targets") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Drafter> NewDrafter(const fs::path& folder,
                                    const Json& expected) {
  const fs::path target = kFixtures / "targets" / expected["target"];
  DrafterOptions options;
  options.options =
      expected["options"].get<std::map<std::string, std::string>>();
  options.options["model"] = (folder / "head").string();
  options.options["compute_type"] = "float32";
  if (expected["type"] == "eagle") options.options["least_reach"] = "0";
  options.vocab_size = ReadJson(target / "config.json")["vocab_size"];
  options.target_folder = target.string();
  DrafterRegistry registry("drafter type");
  RegisterDrafters(registry);
  auto drafter = registry.Create(expected["type"], options);
  EXPECT_TRUE(drafter.ok()) << drafter.status();
  return drafter.ok() ? *std::move(drafter) : nullptr;
}

// The drafter's sequence, brought up to date round by round.
class Sequence {
 public:
  explicit Sequence(uint64_t number) : number_(number) {}

  void Commit(const Json& round) {
    tokens_ = round["tokens"].get<std::vector<TokenId>>();
    for (const Json& row : round["features"]["rows"]) {
      const auto numbers = row.get<std::vector<uint16_t>>();
      features_.width = static_cast<int64_t>(numbers.size());
      features_.data.insert(features_.data.end(), numbers.begin(),
                            numbers.end());
    }
  }

  // Asks for the tree of the round that was committed last.
  ViewAndFeatures View(const Json& round) const {
    return {.view = {.id = {1, number_},
                     .tokens = tokens_,
                     .sampling = {.temperature = round["temperature"],
                                  .seed = round["seed"]},
                     .budget = {.max_nodes = round["budget"]["max_nodes"],
                                .max_depth = round["budget"]["max_depth"]}},
            .rows = &features_};
  }

 private:
  const uint64_t number_;
  std::vector<TokenId> tokens_;
  FeatureRows features_;
};

void ExpectTree(const TokenTree& tree, const Json& expected) {
  EXPECT_EQ(tree.tokens, expected["tokens"].get<std::vector<TokenId>>());
  EXPECT_EQ(tree.parents, expected["parents"].get<std::vector<int32_t>>());
  EXPECT_THAT(
      tree.log_probs,
      ::testing::Pointwise(::testing::FloatNear(1e-3f),
                           expected["log_probs"].get<std::vector<float>>()));
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  const fs::path folder_ = kFixtures / GetParam();
  const Json expected_ = ReadJson(folder_ / "expected.json");
  const std::unique_ptr<Drafter> drafter_ = NewDrafter(folder_, expected_);
};

TEST_P(GoldenTest, WantsTheFeaturesThatItWasTrainedOn) {
  ASSERT_NE(drafter_, nullptr);
  const FeatureContract contract = WantedFeatures(*drafter_);
  EXPECT_EQ(contract.taps, expected_["taps"].get<std::vector<int32_t>>());
  EXPECT_EQ(contract.width(),
            static_cast<int64_t>(
                expected_["rounds"][0]["features"]["rows"][0].size()));
}

TEST_P(GoldenTest, DraftsTheTreesOfTheReferenceRoundByRound) {
  ASSERT_NE(drafter_, nullptr);
  Sequence sequence(1);
  for (const Json& round : expected_["rounds"]) {
    SCOPED_TRACE(round["tokens"].dump());
    sequence.Commit(round);
    ExpectTree(DraftOne(*drafter_, sequence.View(round)), round["tree"]);
  }
}

// The drafter gets whole texts, as after a restart, and with many sequences in
// one call.
TEST_P(GoldenTest, DraftsTheSameTreesFromWholeTextsInOneBatch) {
  ASSERT_NE(drafter_, nullptr);
  const Json& rounds = expected_["rounds"];
  std::vector<Sequence> sequences;
  std::vector<ViewAndFeatures> views;
  sequences.reserve(rounds.size());
  for (size_t last = 0; last < rounds.size(); ++last) {
    Sequence& sequence = sequences.emplace_back(last);
    for (size_t i = 0; i <= last; ++i) sequence.Commit(rounds[i]);
    views.push_back(sequence.View(rounds[last]));
  }
  const std::vector<TokenTree> trees = DraftAll(*drafter_, views);
  for (size_t i = 0; i < views.size(); ++i) {
    SCOPED_TRACE(rounds[i]["tokens"].dump());
    ExpectTree(trees[i], rounds[i]["tree"]);
  }
}

// The partial trees that a round can use when its time is over.
TEST_P(GoldenTest, ReportsOnItsWayTheTreesOfSmallerDepths) {
  ASSERT_NE(drafter_, nullptr);
  const Json& round = expected_["rounds"][0];
  Sequence sequence(1);
  sequence.Commit(round);
  ViewAndFeatures asked = sequence.View(round);
  SequenceView& view = asked.view;
  std::vector<TokenTree> reports;
  view.report = [&](TokenTree tree) { reports.push_back(std::move(tree)); };
  DraftOne(*drafter_, asked);
  // A block is drafted in one pass.
  EXPECT_EQ(reports.empty(), expected_["type"] == "dflash");
  EXPECT_LT(std::ssize(reports), view.budget.max_depth);
  view.report = nullptr;
  for (size_t i = 0; i < reports.size(); ++i) {
    view.budget.max_depth = static_cast<int64_t>(i) + 1;
    const TokenTree tree = DraftOne(*drafter_, asked);
    EXPECT_EQ(reports[i].tokens, tree.tokens);
    EXPECT_EQ(reports[i].parents, tree.parents);
    EXPECT_EQ(reports[i].log_probs, tree.log_probs);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenTest, ::testing::ValuesIn(CaseNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace espalier::drafter
