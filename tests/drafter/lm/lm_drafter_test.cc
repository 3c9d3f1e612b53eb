// A language model as a drafter: its trees follow the model's distributions.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/model/files/model_identity.h"
#include "common/model/load/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter::lm_drafter_test {
namespace {

using ::testing::HasSubstr;
using testing::kTinyVocab;

using Options = std::map<std::string, std::string>;

std::string Folder(const std::string& name,
                   testing::TinyTensors (*write)(const std::string&, uint64_t),
                   uint64_t seed) {
  const std::string folder = ::testing::TempDir() + "lm_" + name;
  write(folder, seed);
  return folder;
}

const std::string& Target() {
  static const std::string* const folder =
      new std::string(Folder("target", testing::WriteTinyLlama, 1));
  return *folder;
}

std::unique_ptr<Drafter> Make(Options options) {
  options.insert({{"compute_type", "float32"}, {"noise_key", "5"}});
  return MakeDrafter("lm", {.options = options,
                            .target_folder = Target(),
                            .vocab_size = kTinyVocab});
}

std::string ErrorOf(const Options& options, uint64_t fingerprint = 0) {
  const auto drafter = NewLmDrafter({.options = options,
                                     .target_folder = Target(),
                                     .vocab_size = kTinyVocab,
                                     .tokenizer_fingerprint = fingerprint});
  EXPECT_FALSE(drafter.ok());
  return std::string(drafter.status().message());
}

// Log-probabilities of all tokens after a text.
std::vector<double> DistributionAfter(LanguageModel& model,
                                      const std::vector<TokenId>& text) {
  const CacheId cache = model.NewSequence();
  const auto rows = Prefill(model, cache, text, 64);
  EXPECT_TRUE(rows.ok()) << rows.status();
  const auto logits = (*rows)->Row(0);
  std::vector<double> distribution(logits.begin(), logits.end());
  const double largest =
      *std::max_element(distribution.begin(), distribution.end());
  double sum = 0;
  for (double logit : distribution) sum += std::exp(logit - largest);
  for (double& logit : distribution) logit -= largest + std::log(sum);
  model.Release(cache);
  return distribution;
}

// Returns the weights of a distribution's likeliest `top` tokens at a
// temperature.
std::map<TokenId, double> Truncated(const std::vector<double>& distribution,
                                    size_t top, double temperature) {
  std::vector<TokenId> tokens(distribution.size());
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&distribution](TokenId a, TokenId b) {
                     return distribution[a] > distribution[b];
                   });
  tokens.resize(top);
  std::map<TokenId, double> weights;
  double sum = 0;
  for (TokenId token : tokens) {
    sum += weights[token] = std::exp(distribution[token] / temperature);
  }
  for (auto& [token, weight] : weights) weight /= sum;
  return weights;
}

TEST(LmDrafterTest, DistributionsAreTheModelsOwnTruncated) {
  const auto model = LoadModel({.folder = Target()});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto drafter = Make({{"model", Target()},
                             {"scheme", "sampled"},
                             {"branches", "3,2,1"},
                             {"top", "7"}});
  std::mt19937_64 random(4);
  const std::vector<TokenId> tokens = RandomTokens(random, 30, kTinyVocab);
  const TokenTree tree =
      DraftOne(*drafter, {.tokens = tokens,
                          .sampling = {.temperature = 0.8f, .seed = 3},
                          .budget = {.max_nodes = 30, .max_depth = 5}});
  const auto paths = Paths(tree);
  ASSERT_EQ(std::ssize(tree.samples), 3 + 6 + 6);
  for (const DraftSample& sample : tree.samples) {
    std::vector<TokenId> text = tokens;
    const auto& path = paths[tree.parents[sample.node]];
    text.insert(text.end(), path.begin(), path.end());
    const auto expected = Truncated(DistributionAfter(**model, text), 7, 0.8);
    const DraftDistribution distribution =
        tree.distributions[sample.distribution];
    ASSERT_EQ(distribution.tokens.size(), expected.size());
    for (size_t i = 0; i < distribution.tokens.size(); ++i) {
      ASSERT_TRUE(expected.contains(distribution.tokens[i]));
      EXPECT_NEAR(distribution.weights[i] / double{kDistributionTotal},
                  expected.at(distribution.tokens[i]), 1e-4);
    }
  }
}

TEST(LmDrafterTest, TheTargetItselfForeseesTheText) {
  const auto model = LoadModel({.folder = Target()});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto drafter = Make({{"model", Target()}, {"noise_scale", "0.35"}});
  for (float temperature : {0.0f, 1.0f}) {
    const SamplingParams sampling = {.temperature = temperature, .seed = 9};
    const std::vector<TokenId> tokens = {72, 105};
    const TokenTree tree =
        DraftOne(*drafter, {.tokens = tokens,
                            .sampling = sampling,
                            .budget = {.max_nodes = 30, .max_depth = 4}});
    const auto target = [&](const std::vector<TokenId>& text) {
      std::vector<Candidate> distribution;
      const std::vector<double> log_probs = DistributionAfter(**model, text);
      for (TokenId token = 0; token < kTinyVocab; ++token) {
        distribution.push_back({token, log_probs[token]});
      }
      return distribution;
    };
    EXPECT_EQ(AcceptedLength(tree, tokens, sampling, target), 4);
  }
}

TEST(LmDrafterTest, EarlyExitIsTheModelOfItsFirstLayers) {
  const auto first = Make({{"layers", "1"}});
  const auto whole = Make({{"layers", "2"}});
  const auto same = Make({{"model", Target()}});
  const std::vector<TokenId> tokens = {1, 2, 3};
  const SequenceView asked = {.tokens = tokens,
                              .budget = {.max_nodes = 12, .max_depth = 3}};
  EXPECT_NE(DraftOne(*first, asked).log_probs,
            DraftOne(*whole, asked).log_probs);
  EXPECT_EQ(DraftOne(*whole, asked).log_probs,
            DraftOne(*same, asked).log_probs);
}

// A partly accepted tree leaves no rows in the cache.
TEST(LmDrafterTest, AfterManyRoundsTheTreeIsThatOfAFreshSession) {
  for (const char* scheme :
       {"best_first", "sampled", "greedy+1", "without-replacement"}) {
    for (const char* layers : {"1", "2"}) {
      const Options options = {
          {"layers", layers}, {"scheme", scheme}, {"noise_scale", "1"}};
      const auto drafter = Make(options);
      std::mt19937_64 random(6);
      std::vector<TokenId> tokens = RandomTokens(random, 300, kTinyVocab);
      const auto view = [&tokens] {
        return SequenceView{.id = {1, 1},
                            .tokens = tokens,
                            .sampling = {.temperature = 0.7f, .seed = 2},
                            .budget = {.max_nodes = 14, .max_depth = 3}};
      };
      for (int round = 0; round < 12; ++round) {
        const TokenTree tree = DraftOne(*drafter, view());
        ASSERT_GT(tree.num_nodes(), 1);
        const std::vector<int32_t> path =
            tree.PathTo(static_cast<int32_t>(random() % tree.num_nodes()));
        for (int32_t node : path) tokens.push_back(tree.tokens[node]);
        tokens.push_back(static_cast<TokenId>(random() % kTinyVocab));
      }
      const TokenTree tree = DraftOne(*drafter, view());
      const TokenTree fresh = DraftOne(*Make(options), view());
      EXPECT_EQ(tree.tokens, fresh.tokens) << scheme;
      EXPECT_EQ(tree.parents, fresh.parents) << scheme;
      EXPECT_EQ(tree.log_probs, fresh.log_probs) << scheme;
      EXPECT_EQ(tree.samples, fresh.samples) << scheme;
      EXPECT_EQ(tree.claims_distributions(),
                scheme != std::string("best_first"));
    }
  }
}

// Draft models of other architectures than the target's: their likeliest token
// and its probability are those of the model itself, also behind windows.
TEST(LmDrafterTest, ReadsEveryArchitecture) {
  const std::string folders[] = {
      Folder("qwen", testing::WriteTinyQwen3, 2),
      Folder("experts", testing::WriteTinyQwen3Moe, 2),
      Folder("gemma2", testing::WriteTinyGemma2, 2),
      Folder("gemma3", testing::WriteTinyGemma3, 2),
      Folder("gpt2", testing::WriteTinyGpt2, 2),
  };
  std::mt19937_64 random(9);
  const std::vector<TokenId> tokens = RandomTokens(random, 50, kTinyVocab);
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    const auto drafter = Make({{"model", folder}});
    const SequenceView view = {.tokens = tokens,
                               .budget = {.max_nodes = 6, .max_depth = 3}};
    const TokenTree tree = DraftOne(*drafter, view);
    ASSERT_EQ(tree.num_nodes(), 7);
    const auto model = LoadModel({.folder = folder});
    ASSERT_TRUE(model.ok()) << model.status();
    const std::vector<double> expected = DistributionAfter(**model, tokens);
    const auto best = std::max_element(expected.begin(), expected.end());
    EXPECT_EQ(tree.tokens[1], best - expected.begin());
    EXPECT_NEAR(tree.log_probs[1], *best, 1e-3);
  }
}

TEST(LmDrafterTest, DraftsNothingBehindThePositionsThatItKnows) {
  const auto drafter =
      Make({{"model", Folder("short", testing::WriteTinyGpt2, 3)}});
  std::mt19937_64 random(8);
  std::vector<TokenId> tokens =
      RandomTokens(random, testing::kTinyMaxPositions - 1, kTinyVocab);
  const auto view = [&tokens] {
    return SequenceView{.tokens = tokens,
                        .budget = {.max_nodes = 9, .max_depth = 3}};
  };
  for (int32_t depth : DraftOne(*drafter, view()).Depths()) {
    EXPECT_LE(depth, 1);
  }
  tokens.insert(tokens.end(), 2, 7);
  EXPECT_EQ(DraftOne(*drafter, view()).num_nodes(), 1);
}

TEST(LmDrafterTest, WithoutRoomItStartsAgain) {
  const auto drafter = Make({{"layers", "1"}, {"kv_tokens", "128"}});
  std::mt19937_64 random(8);
  std::vector<TokenId> tokens = RandomTokens(random, 200, kTinyVocab);
  SequenceView view = {.id = {1, 1},
                       .tokens = tokens,
                       .budget = {.max_nodes = 9, .max_depth = 2}};
  EXPECT_EQ(DraftOne(*drafter, view).num_nodes(), 1);
  view.id = {1, 2};
  view.tokens = absl::MakeConstSpan(tokens).first(20);
  EXPECT_EQ(DraftOne(*drafter, view).num_nodes(), 10);
}

TEST(LmDrafterTest, WhoFindsNoRoomTakesNoneFromOthersAndDraftsWhenTheyEnd) {
  const auto drafter = Make({{"layers", "1"}, {"kv_tokens", "128"}});
  std::mt19937_64 random(8);
  const std::vector<TokenId> tokens = RandomTokens(random, 100, kTinyVocab);
  SequenceView first = {.id = {1, 1},
                        .tokens = absl::MakeConstSpan(tokens).first(70),
                        .budget = {.max_nodes = 9, .max_depth = 2}};
  SequenceView second = first;
  second.id = {1, 2};
  second.cache_salt = "salt";  // shares no rows
  EXPECT_EQ(DraftOne(*drafter, first).num_nodes(), 10);
  for (size_t length = 70; length < 100; length += 10) {
    first.tokens = second.tokens = absl::MakeConstSpan(tokens).first(length);
    EXPECT_EQ(DraftOne(*drafter, second).num_nodes(), 1);
    EXPECT_EQ(DraftOne(*drafter, first).num_nodes(), 10);
  }
  drafter->Forget(first.id);
  EXPECT_EQ(DraftOne(*drafter, second).num_nodes(), 10);
}

TEST(LmDrafterTest, RefusesWhatDoesNotFitTheTarget) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("option layers: is required"));
  EXPECT_THAT(ErrorOf({{"layers", "0"}}), HasSubstr("option layers"));
  EXPECT_THAT(ErrorOf({{"layers", "3"}}),
              HasSubstr("option layers: 3 layers are asked for"));
  EXPECT_THAT(ErrorOf({{"model", "/nonexistent"}}),
              HasSubstr("option model: cannot read /nonexistent"));
  EXPECT_THAT(ErrorOf({{"model", Folder("other", testing::WriteTinyLlama, 4)}},
                      /*fingerprint=*/12345),
              HasSubstr("another tokenizer than the target"));
  EXPECT_THAT(ErrorOf({{"layers", "1"}, {"scheme", "best"}}),
              HasSubstr("scheme"));
  EXPECT_THAT(
      ErrorOf({{"layers", "1"}, {"branches", "2,0"}, {"scheme", "sampled"}}),
      HasSubstr("branches"));
  const auto other_size = NewLmDrafter(
      {.options = {{"model", Target()}},
       .target_folder = Folder("bigger", testing::WriteTinyLlama, 5),
       .vocab_size = kTinyVocab + 1});
  EXPECT_THAT(std::string(other_size.status().message()),
              HasSubstr("a vocabulary of 258 tokens, the target one of 259"));
}

// Returns a copy of the target whose tables have `vocab_size` rows. The further
// rows are the likeliest ones, so that a draft would have them.
std::string Padded(int64_t vocab_size) {
  const std::string folder = ::testing::TempDir() + "lm_padded";
  testing::TinyTensors tensors = testing::WriteTinyLlama(folder, 1);
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    testing::TinyTensor& table = tensors.at(name);
    const int64_t width = table.shape[1];
    for (int64_t row = kTinyVocab; row < vocab_size; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        table.values.push_back(4 * table.values[i]);
      }
    }
    table.shape[0] = vocab_size;
  }
  testing::WriteSafetensors(folder + "/model.safetensors", tensors);
  std::ifstream in(folder + "/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["vocab_size"] = vocab_size;
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

TEST(LmDrafterTest, ReadsAndDraftsOnlyTokensThatBothModelsHave) {
  const auto target = IdentifyTarget(Target(), "");
  ASSERT_TRUE(target.ok()) << target.status();
  const auto make = [&](const std::string& folder, int64_t target_vocab) {
    return MakeDrafter("lm", {.options = {{"model", folder},
                                          {"compute_type", "float32"},
                                          {"noise_scale", "0.35"}},
                              .target_folder = Target(),
                              .vocab_size = target_vocab,
                              .tokenizer_fingerprint =
                                  target->identity.tokenizer_fingerprint});
  };
  const std::string padded = Padded(kTinyVocab + 14);
  const std::vector<TokenId> tokens = {72, 105, 32};
  const SequenceView asked = {.tokens = tokens,
                              .sampling = {.temperature = 1, .seed = 4},
                              .budget = {.max_nodes = 20, .max_depth = 4}};
  const TokenTree expected = DraftOne(*make(padded, kTinyVocab), asked);
  EXPECT_GT(expected.num_nodes(), 1);
  EXPECT_LT(*std::max_element(expected.tokens.begin(), expected.tokens.end()),
            kTinyVocab);
  const auto smaller =
      make(Folder("copy", testing::WriteTinyLlama, 1), kTinyVocab + 30);
  const TokenTree same = DraftOne(*smaller, asked);
  EXPECT_EQ(same.tokens, expected.tokens);
  EXPECT_EQ(same.parents, expected.parents);

  // It drafts nothing after a text with one of the target's padding tokens.
  const std::vector<TokenId> unknown = {72, kTinyVocab + 20, 32};
  SequenceView of_unknown = asked;
  of_unknown.tokens = unknown;
  of_unknown.id = {1, 7};
  EXPECT_EQ(DraftOne(*smaller, of_unknown).num_nodes(), 1);
}

// As Gemma 3 270M for a larger one: windows, other sizes, and further rows of
// padding in the target's tables.
TEST(LmDrafterTest, ASmallGemmaDraftsForALargerOne) {
  const std::string large = Folder("large", testing::WriteWideGemma3, 1);
  const std::string small = Folder("small", testing::WriteTinyGemma3, 2);
  const auto identity = IdentifyTarget(large, "");
  ASSERT_TRUE(identity.ok()) << identity.status();
  const auto drafter = MakeDrafter(
      "lm",
      {.options = {{"model", small}, {"compute_type", "float32"}},
       .target_folder = large,
       .vocab_size = kTinyVocab + 64,
       .tokenizer_fingerprint = identity->identity.tokenizer_fingerprint});
  const auto model = LoadModel({.folder = small});
  ASSERT_TRUE(model.ok()) << model.status();
  std::mt19937_64 random(9);
  std::vector<TokenId> tokens = RandomTokens(random, 60, kTinyVocab);
  for (int round = 0; round < 8; ++round) {
    const TokenTree tree =
        DraftOne(*drafter, {.id = {1, 1},
                            .tokens = tokens,
                            .budget = {.max_nodes = 6, .max_depth = 3}});
    const std::vector<double> expected = DistributionAfter(**model, tokens);
    const auto best = std::max_element(expected.begin(), expected.end());
    EXPECT_EQ(tree.tokens[1], best - expected.begin());
    EXPECT_NEAR(tree.log_probs[1], *best, 1e-3);
    tokens.push_back(tree.tokens[1]);
    tokens.push_back(static_cast<TokenId>(random() % kTinyVocab));
  }
}

// The pool has room for the rows of the text once, and a page more.
TEST(LmDrafterTest, ASecondSequenceOfTheTextTakesItsRows) {
  std::mt19937_64 random(6);
  const std::vector<TokenId> tokens = RandomTokens(random, 81, kTinyVocab);
  const DraftBudget budget = {.max_nodes = 6, .max_depth = 3};
  const auto draft = [&](Drafter& drafter, uint64_t number, int64_t length) {
    return DraftOne(
        drafter,
        SequenceView{.id = {1, number},
                     .tokens = absl::MakeConstSpan(tokens).first(length),
                     .budget = budget});
  };
  for (const char* mib : {"1", "0"}) {
    const auto drafter = Make(
        {{"model", Target()}, {"kv_tokens", "128"}, {"prefix_cache_mib", mib}});
    draft(*drafter, 1, 80);
    const TokenTree first = draft(*drafter, 1, 81);
    EXPECT_GT(first.num_nodes(), 1);
    const TokenTree second = draft(*drafter, 2, 81);
    if (std::string(mib) == "0") {
      EXPECT_EQ(second.num_nodes(), 1);
    } else {
      EXPECT_EQ(second.tokens, first.tokens);
      EXPECT_EQ(second.log_probs, first.log_probs);
    }
  }
}

}  // namespace
}  // namespace espalier::drafter::lm_drafter_test
