// Checks the promises of drafter.h for every registered drafter.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bf16.h"
#include "drafter/ngram/ngram_table_builder.h"
#include "drafter/ngram/ngram_table_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/draft_testing.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter::drafter_contract_test {
namespace {

constexpr int64_t kVocab = 96;  // of the golden heads

std::vector<std::string> RegisteredNames() {
  DrafterRegistry registry("drafter");
  RegisterDrafters(registry);
  return registry.Names();
}

std::string TableFile(const std::string& name) {
  std::mt19937_64 random(21);
  auto builder = NgramTableBuilder::Create({.order = 3, .vocab_size = kVocab});
  EXPECT_TRUE(builder->Add(RandomTokens(random, 2000, kVocab)).ok());
  const std::string path = ::testing::TempDir() + name + ".ngram";
  EXPECT_TRUE(WriteNgramTable(builder->Build(), path).ok());
  return path;
}

// The texts are random, too, so they begin as any sequence does that is short.
std::string TextsFile(const std::string& name) {
  const std::string path = ::testing::TempDir() + name + ".texts";
  std::ofstream file(path);
  std::mt19937_64 random(24);
  for (TokenId first = 0; first < kVocab; ++first) {
    file << first;
    for (TokenId token : RandomTokens(random, 20, kVocab)) file << "," << token;
    file << "\n";
  }
  return path;
}

// The options with which a type drafts something on random text.
struct Subject {
  std::map<std::string, std::string> options;
  std::string target_folder = {};  // of those with weights
};

// Returns a head of the golden tests.
Subject HeadSubject(const std::string& fixture, const std::string& target) {
  const std::string fixtures = SourcePath("tests/drafter/golden/fixtures/");
  // A scale that is learned would make trees depend on what came before.
  return {.options = {{"model", fixtures + fixture + "/head"},
                      {"noise_scale", "1"}},
          .target_folder = fixtures + "targets/" + target};
}

// Returns the first layer of a model, which is written once.
Subject EarlyExitSubject(const std::string& test) {
  static const std::string* const folder = [&test] {
    const std::string path = ::testing::TempDir() + test + "_target";
    testing::WriteTinyLlama(path);
    return new std::string(path);
  }();
  return {.options = {{"layers", "1"}, {"noise_scale", "1"}},
          .target_folder = *folder};
}

struct Sequence {
  uint64_t number = 0;
  std::vector<TokenId> tokens;
  SamplingParams sampling;
  FeatureRows features;   // of all tokens but the last
  TokenRanks ranks = {};  // of all tokens but the first
  // What a drafter learns across requests stays with a tenant: each is one.
  std::string salt = {};

  // Leaves out the rows that a drafter got with the first `length` tokens.
  void DropRanks(size_t length) {
    const int64_t rows = std::max<int64_t>(0, static_cast<int64_t>(length) - 1);
    ranks.DropFirst(std::min(rows, ranks.size()));
  }

  void Resize(size_t length) {
    tokens.resize(std::min(tokens.size(), length));
    features.CutFrom(static_cast<int64_t>(tokens.size()) - 1);
    const int64_t rows = std::max<int64_t>(0, std::ssize(tokens) - 1);
    if (ranks.size() <= rows) return;
    ranks.contexts.resize(2 * rows);
    ranks.tokens.resize(rows * ranks.top);
    ranks.log_probs.resize(rows * ranks.top);
  }
};

// Returns a drafter whose network is on a device, for the wide Llama.
Subject DeviceSubject(const std::string& type) {
  static const std::string* const folder = [] {
    const std::string path =
        ::testing::TempDir() + "contract_" + std::to_string(getpid());
    testing::WriteWideLlama(path + "/target");
    testing::WriteWideEagle(testing::EagleLayouts().back(), path + "/eagle");
    testing::WriteTinyDflash(testing::MakeTinyDflash(200, testing::kWideDflash),
                             path + "/dflash");
    return new std::string(path);
  }();
  Subject subject = {
      .options = {{"device", testing::CudaTestDevice()}, {"noise_scale", "1"}},
      .target_folder = *folder + "/target"};
  if (type == "lm") subject.options["layers"] = "1";
  if (type != "lm") subject.options["model"] = *folder + "/" + type;
  return subject;
}

struct Contender {
  std::string type;    // registered
  std::string scheme;  // that it samples by; empty: none
  bool on_device = false;
};

class DrafterContractTest : public ::testing::TestWithParam<Contender> {
 protected:
  std::unique_ptr<Drafter> Make() const {
    std::string test =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(test.begin(), test.end(), '/', '_');
    const std::map<std::string, Subject> subjects = {
        {"ngram", {.options = {{"table", TableFile(test)}}}},
        {"eagle", HeadSubject("eagle31_midlayer", "tied")},
        {"dflash", HeadSubject("dflash_draft_vocabulary", "tied")},
        {"lm", EarlyExitSubject(test)},
        {"recycle", {.options = {{"max_tenants", "100"}}}},
        {"replay",
         {.options = {{"drafter", "prompt_lookup"},
                      {"texts", TextsFile(test)}}}}};
    const auto& [type, scheme, on_device] = GetParam();
    // A type that needs no options needs no subject.
    const auto found = subjects.find(type);
    Subject subject = found == subjects.end() ? Subject() : found->second;
    if (on_device) subject = DeviceSubject(type);
    if (!scheme.empty()) {
      subject.options.insert({{"scheme", scheme}, {"noise_key", "3"}});
    }
    return MakeDrafter(type, {.options = subject.options,
                              .target_folder = subject.target_folder,
                              .vocab_size = VocabSize()});
  }

  // Returns the vocabulary size of the target that the type is made for.
  static int64_t VocabSize() {
    return GetParam().type == "lm" || GetParam().on_device ? testing::kTinyVocab
                                                           : kVocab;
  }

  // The emulated device is slow.
  static int FewerOnDevice(int count) {
    return GetParam().on_device ? std::min(count, 2) : count;
  }

  // Returns sequences with the features that the type wants.
  std::vector<Sequence> RandomSequences(int count) const {
    const auto drafter = Make();
    const int64_t width = WantedFeatures(*drafter).width();
    const bool wants_ranks = drafter->ranks().any();
    std::mt19937_64 random(22);
    std::normal_distribution<float> normal;
    std::vector<Sequence> sequences;
    const uint64_t longest = GetParam().on_device ? 80 : 300;
    for (int i = 0; i < FewerOnDevice(count); ++i) {
      Sequence& sequence = sequences.emplace_back(Sequence{
          .number = random(),
          .tokens = RandomTokens(random, 1 + random() % longest, kVocab),
          .sampling = {.temperature = 0.5f * (i % 3), .seed = random()},
          .features = {.width = width}});
      sequence.features.data.resize((sequence.tokens.size() - 1) * width);
      for (uint16_t& value : sequence.features.data) {
        value = FloatToBf16(normal(random));
      }
      sequence.salt = std::to_string(i);
      if (wants_ranks) sequence.ranks = RandomRanks(random, sequence.tokens);
    }
    return sequences;
  }

  static TokenRanks RandomRanks(std::mt19937_64& random,
                                const std::vector<TokenId>& tokens) {
    TokenRanks ranks = {.top = 3};
    for (size_t i = 1; i < tokens.size(); ++i) {
      ranks.contexts.insert(ranks.contexts.end(), {tokens[i - 1], tokens[i]});
      const auto first = static_cast<TokenId>(random() % (kVocab - 3));
      ranks.tokens.insert(ranks.tokens.end(), {first + 1, first, first + 2});
      ranks.log_probs.insert(ranks.log_probs.end(), {-0.7f, -1.4f, -2.8f});
    }
    return ranks;
  }
};

ViewAndFeatures ViewOf(const Sequence& sequence, DraftBudget budget) {
  return {.view = {.id = {.coordinator_epoch = 5, .number = sequence.number},
                   .tokens = sequence.tokens,
                   .sampling = sequence.sampling,
                   .budget = budget,
                   .cache_salt = sequence.salt,
                   .ranks = &sequence.ranks},
          .rows = &sequence.features};
}

void ExpectSame(const TokenTree& a, const TokenTree& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.parents, b.parents);
  EXPECT_EQ(a.log_probs, b.log_probs);
  EXPECT_EQ(a.samples, b.samples);
}

// Returns the same view later: rows of the target come once.
ViewAndFeatures Again(ViewAndFeatures view) {
  view.view.ranks = nullptr;
  return view;
}

constexpr DraftBudget kBudget = {.max_nodes = 20, .max_depth = 5};

TEST_P(DrafterContractTest, TreesAreValidRootedAndWithinTheirBudget) {
  auto drafter = Make();
  int64_t nodes = 0;
  for (const Sequence& sequence : RandomSequences(20)) {
    for (int64_t max_nodes : {0, 1, 7, 500}) {
      for (int64_t max_depth : {0, 1, 3}) {
        const TokenTree tree = DraftOne(
            *drafter,
            ViewOf(sequence, {.max_nodes = max_nodes, .max_depth = max_depth}));
        const absl::Status valid = tree.Validate({.max_nodes = max_nodes,
                                                  .max_depth = max_depth,
                                                  .vocab_size = VocabSize()});
        EXPECT_TRUE(valid.ok()) << valid;
        EXPECT_EQ(tree.tokens[0], sequence.tokens.back());
        nodes += tree.num_nodes() - 1;
      }
    }
  }
  EXPECT_GT(nodes, 100) << "a drafter that never drafts passes everything else";
}

TEST_P(DrafterContractTest, ABudgetOfNothingIsTheRootAlone) {
  auto drafter = Make();
  for (const Sequence& sequence : RandomSequences(3)) {
    EXPECT_EQ(DraftOne(*drafter, ViewOf(sequence, {0, 5})).num_nodes(), 1);
    EXPECT_EQ(DraftOne(*drafter, ViewOf(sequence, {5, 0})).num_nodes(), 1);
  }
}

TEST_P(DrafterContractTest, SiblingsDiffer) {
  auto drafter = Make();
  for (const Sequence& sequence : RandomSequences(10)) {
    const TokenTree tree = DraftOne(*drafter, ViewOf(sequence, kBudget));
    const auto paths = Paths(tree);
    EXPECT_EQ(std::set(paths.begin(), paths.end()).size(), paths.size());
  }
}

TEST_P(DrafterContractTest, AContextOfOneTokenIsEnough) {
  auto drafter = Make();
  const TokenId step = GetParam().on_device ? 40 : 1;
  for (TokenId token = 0; token < kVocab; token += step) {
    const Sequence sequence = {.number = static_cast<uint64_t>(token),
                               .tokens = {token}};
    EXPECT_EQ(DraftOne(*drafter, ViewOf(sequence, kBudget)).tokens[0], token);
  }
}

TEST_P(DrafterContractTest, TheSameViewGivesTheSameTree) {
  auto one = Make();
  auto other = Make();
  for (const Sequence& sequence : RandomSequences(10)) {
    const ViewAndFeatures view = ViewOf(sequence, kBudget);
    const TokenTree tree = DraftOne(*one, view);
    ExpectSame(tree, DraftOne(*one, Again(view)));
    ExpectSame(tree, DraftOne(*other, view));
  }
}

TEST_P(DrafterContractTest, ABatchGivesWhatEachSequenceGivesAlone) {
  auto together = Make();
  const std::vector<Sequence> sequences = RandomSequences(6);
  size_t before = 1;
  for (size_t length : {size_t{1}, size_t{40}, size_t{300}}) {
    std::vector<Sequence> grown = sequences, added = sequences;
    std::vector<ViewAndFeatures> views;
    for (size_t i = 0; i < grown.size(); ++i) {
      grown[i].Resize(length);
      added[i] = grown[i];
      added[i].DropRanks(before);
      views.push_back(ViewOf(added[i], kBudget));
    }
    before = length;
    const std::vector<TokenTree> trees = DraftAll(*together, views);
    for (size_t i = 0; i < views.size(); ++i) {
      auto alone = Make();
      ExpectSame(trees[i], DraftOne(*alone, ViewOf(grown[i], kBudget)));
    }
  }
}

TEST_P(DrafterContractTest, AnEmptyBatchIsAnsweredWithNoTrees) {
  auto trees = Make()->Draft({});
  ASSERT_TRUE(trees.ok());
  EXPECT_TRUE(trees->empty());
}

TEST_P(DrafterContractTest, GrowthAtOnceEqualsGrowthTokenByToken) {
  for (const Sequence& sequence : RandomSequences(5)) {
    auto stepwise = Make();
    for (size_t length = 1; length < sequence.tokens.size(); ++length) {
      Sequence prefix = sequence;
      prefix.Resize(length);
      prefix.DropRanks(length - 1);
      DraftOne(*stepwise, ViewOf(prefix, {.max_nodes = 0, .max_depth = 5}));
    }
    Sequence whole = sequence;
    whole.DropRanks(sequence.tokens.size() - 1);
    auto at_once = Make();
    ExpectSame(DraftOne(*stepwise, ViewOf(whole, kBudget)),
               DraftOne(*at_once, ViewOf(sequence, kBudget)));
  }
}

// The coordinator sends it before the features of the lookahead's tokens exist.
TEST_P(DrafterContractTest, ADraftForAGuessLeavesNothingBehind) {
  auto drafter = Make();
  if (!drafter->supports_lookahead()) GTEST_SKIP() << "does not draft ahead";
  std::mt19937_64 random(23);
  int64_t nodes = 0;
  for (const Sequence& sequence : RandomSequences(10)) {
    const std::vector<TokenId> lookahead =
        RandomTokens(random, 1 + random() % 4, kVocab);
    ViewAndFeatures ahead = ViewOf(sequence, kBudget);
    ahead.view.lookahead = lookahead;
    const TokenTree tree = DraftOne(*drafter, ahead);
    const absl::Status valid = tree.Validate({.max_nodes = kBudget.max_nodes,
                                              .max_depth = kBudget.max_depth,
                                              .vocab_size = VocabSize()});
    EXPECT_TRUE(valid.ok()) << valid;
    EXPECT_EQ(tree.tokens[0], lookahead.back());
    nodes += tree.num_nodes() - 1;
    auto fresh = Make();
    ExpectSame(tree, DraftOne(*fresh, ahead));
    auto unaware = Make();
    ExpectSame(DraftOne(*drafter, ViewOf(sequence, kBudget)),
               DraftOne(*unaware, ViewOf(sequence, kBudget)));
  }
  EXPECT_GT(nodes, 20);
}

TEST_P(DrafterContractTest, AfterForgetTheSequenceMayBeAnother) {
  auto drafter = Make();
  std::vector<Sequence> sequences = RandomSequences(4);
  for (Sequence& sequence : sequences) {
    sequence.number = 1;
    auto fresh = Make();
    ExpectSame(DraftOne(*drafter, ViewOf(sequence, kBudget)),
               DraftOne(*fresh, ViewOf(sequence, kBudget)));
    drafter->Forget({.coordinator_epoch = 5, .number = 1});
  }
  drafter->Forget({.coordinator_epoch = 5, .number = 999});  // never seen
}

// Each type by itself, and each scheme of those that can sample. `grammar`
// drafts nothing for a request without one (grammar_drafter_test.cc).
std::vector<Contender> Subjects() {
  std::vector<Contender> subjects;
  for (const std::string& type : RegisteredNames()) {
    if (type != "grammar") subjects.push_back({type, ""});
  }
  for (const char* type : {"eagle", "lm", "ngram"}) {
    for (const char* scheme : {"sampled", "greedy+1", "without-replacement"}) {
      subjects.push_back({type, scheme});
    }
  }
  for (const char* type : {"eagle", "dflash", "lm"}) {
    if (testing::HasCudaTestDevice()) subjects.push_back({type, "", true});
  }
  return subjects;
}

std::string NameOf(const ::testing::TestParamInfo<Contender>& subject) {
  const auto& [type, scheme, on_device] = subject.param;
  std::string name = scheme.empty() ? type : type + "_" + scheme;
  if (on_device) name += "_on_device";
  std::replace(name.begin(), name.end(), '+', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, DrafterContractTest,
                         ::testing::ValuesIn(Subjects()), NameOf);

}  // namespace
}  // namespace espalier::drafter::drafter_contract_test
