// Passes that are replayed as graphs of the device, and passes whose layers run
// as chains.
#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/model/cuda/cuda_model_fixture.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

const Tree kRound = {{5, 190, 17, 17, 2, 90, 41, 8}, {-1, 0, 1, 1, 0, 4, 5, 2}};

// What passes gave: logits of all rows, features of what was kept.
struct Given {
  std::vector<Row> logits;
  std::vector<uint16_t> features;
};

// A round of a sequence: the tree, and a path of it that is kept.
void TakeRound(LanguageModel& model, CacheId cache, const Tree& tree,
               const std::vector<int32_t>& taps, int32_t node, Given& given) {
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = taps;
  const auto pass = model.Forward({rows});
  ASSERT_TRUE(pass.ok()) << pass.status();
  for (int64_t row = 0; row < (*pass)->num_rows(); ++row) {
    given.logits.push_back(RowOf(**pass, row));
  }
  const std::vector<int32_t> path = tree.PathTo(node);
  std::vector<uint16_t> features(path.size() * taps.size() *
                                 model.info().config.hidden_size);
  ASSERT_TRUE(model.Keep(cache, path, absl::MakeSpan(features)).ok());
  given.features.insert(given.features.end(), features.begin(), features.end());
}

// Two sequences that take turns with and without trees and features, while one
// grows by several pages, then a third, and passes of two.
Given TakeRounds(LanguageModel& model, int64_t vocab) {
  Given given;
  const std::vector<int32_t> none, taps = {1, 3};
  const CacheId a = model.NewSequence(), b = model.NewSequence();
  const auto prompt = [&](CacheId cache, int64_t tokens) {
    std::vector<TokenId> text;
    for (int64_t i = 0; i < tokens; ++i) {
      text.push_back(static_cast<TokenId>((i * 31 + tokens) % vocab));
    }
    EXPECT_TRUE(Prefill(model, cache, text, 70).ok());
  };
  prompt(a, 20);
  prompt(b, 61);
  for (const int64_t more : {0, 130}) {
    if (more > 0) prompt(b, more);
    for (int i = 0; i < 3; ++i) {
      TakeRound(model, a, {{static_cast<TokenId>(i)}, {-1}}, none, 0, given);
      TakeRound(model, b, kRound, taps, i % 2 == 0 ? 7 : 3, given);
      TakeRound(model, a, kRound, none, 6, given);
    }
  }
  const CacheId c = model.NewSequence();
  prompt(c, 5);
  for (int i = 0; i < 3; ++i) {
    const auto both =
        model.Forward({AllRows(c, kRound), AllRows(b, {{9, 8}, {-1, 0}})});
    EXPECT_TRUE(both.ok()) << both.status();
    for (int64_t row = 0; row < (*both)->num_rows(); ++row) {
      given.logits.push_back(RowOf(**both, row));
    }
    EXPECT_TRUE(model.Keep(c, {0, 4}, {}).ok());
    EXPECT_TRUE(model.Keep(b, {0}, {}).ok());
  }
  return given;
}

TEST_P(CudaModelTest, GraphsChangeNoBit) {
  const auto launching = Load();
  const Given launched = TakeRounds(*launching, kVocab);
  options_.cuda_graphs = true;
  const auto device =
      std::make_shared<testing::WatchedDevice>(std::get<2>(GetParam()));
  const auto model = LoadOn(device);
  const Given replayed = TakeRounds(*model, kVocab);
  EXPECT_EQ(replayed.logits, launched.logits);
  EXPECT_EQ(replayed.features, launched.features);
  EXPECT_GE(device->captures, 5);  // more where freed memory comes again
  EXPECT_GE(device->replays, 10);
}

TEST_P(CudaModelTest, ChainsChangeNoBit) {
  const Given launched = TakeRounds(*Load(), kVocab);
  for (const uint64_t seed : {2, 3, 4}) {
    options_.cuda_graphs = seed >= 3;
    const auto model = LoadOn(ChainingDevice(seed, /*chains_attend=*/seed > 3));
    const Given chained = TakeRounds(*model, kVocab);
    EXPECT_EQ(chained.logits, launched.logits) << seed;
    EXPECT_EQ(chained.features, launched.features) << seed;
  }
}

TEST_P(CudaModelTest, ADeviceThatMakesNoGraphIsTakenAsItIs) {
  const auto device =
      std::make_shared<testing::WatchedDevice>(std::get<2>(GetParam()));
  device->makes_graphs = false;
  options_.cuda_graphs = true;
  const auto model = LoadOn(device);
  const CacheId cache = Prompted(*model, 30);
  const Row first = Decode(*model, cache, 5);
  for (int i = 0; i < 3; ++i) {
    model->Truncate(cache, 30);
    EXPECT_EQ(Decode(*model, cache, 5), first);
  }
  EXPECT_EQ(device->captures, 1);
  EXPECT_EQ(device->replays, 0);
}

TEST_P(CudaModelTest, SteadyDecodingReplaysNearlyAllPasses) {
  const auto device =
      std::make_shared<testing::WatchedDevice>(std::get<2>(GetParam()));
  options_.cuda_graphs = true;
  const auto model = LoadOn(device);
  const CacheId cache = Prompted(*model, 30);
  const std::vector<int32_t> taps = {1, 3};
  int passes = 0;
  device->replays = 0;
  // The tree's form differs from round to round, and so do the tokens that are
  // drawn and kept.
  while (model->Length(cache) < 30 + 200) {
    Tree tree = kRound;
    if (passes % 3 == 1) tree.parents = {-1, 0, 1, 2, 3, 4, 5, 6};
    if (passes % 3 == 2) tree.parents = {-1, 0, 0, 0, 0, 0, 0, 0};
    SequenceRows rows = AllRows(cache, tree, DrawRequest{.temperature = 1});
    rows.taps = taps;
    ASSERT_TRUE(model->Forward({rows}).ok());
    const std::vector<int32_t> path = tree.PathTo(7);
    std::vector<uint16_t> features(path.size() * taps.size() *
                                   model->info().config.hidden_size);
    ASSERT_TRUE(model->Keep(cache, path, absl::MakeSpan(features)).ok());
    ++passes;
  }
  // A graph for each: no page in the prefix or some, and a tree on one page or
  // two; a window reaches into the page before or does not. The first pass of
  // each is launched.
  const int graphs = model->info().kv_groups.windowed > 0 ? 5 : 4;
  EXPECT_EQ(device->replays, passes - graphs);
  EXPECT_EQ(device->captures, graphs);
}

TEST_P(CudaModelTest, LogitsThatAreHeldAreNotWrittenOver) {
  options_.cuda_graphs = true;
  const auto model = Load();
  const CacheId cache = Prompted(*model, 30);
  const auto pass = [&](TokenId token) {
    auto rows = model->Forward({AllRows(cache, {{token}, {-1}})});
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  };
  std::vector<Row> wanted;
  for (TokenId token = 0; token < 4; ++token) {
    wanted.push_back(RowOf(*pass(token), 0));
  }
  std::vector<std::unique_ptr<LogitRows>> held;
  for (TokenId token = 0; token < 4; ++token) held.push_back(pass(token));
  for (TokenId token = 0; token < 4; ++token) {
    EXPECT_EQ(RowOf(*held[token], 0), wanted[token]) << token;
  }
}

}  // namespace
}  // namespace espalier
