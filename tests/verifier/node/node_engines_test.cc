// Heads draft from the features in the verifier's ring what they draft from
// those that are sent, bit for bit. Emulated, or on $ESPALIER_TEST_DEVICE.
#include "verifier/node/node_engines.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/notification.h"
#include "common/speculation/prefix_hash.h"
#include "gtest/gtest.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"

namespace espalier::node {
namespace {

constexpr int64_t kPrompt = 40;

const std::string& Folder() {
  static const std::string* const folder = [] {
    auto* const path = new std::string(::testing::TempDir() + "node_engines");
    testing::WriteWideLlama(*path);
    testing::WriteWideEagle(testing::EagleLayouts().back(), *path + "/eagle");
    testing::WriteTinyDflash(testing::MakeTinyDflash(200, testing::kWideDflash),
                             *path + "/dflash");
    return path;
  }();
  return *folder;
}

v1::VerifierEngineConfig VerifierConfig(const std::string& device) {
  v1::VerifierEngineConfig config;
  config.set_model(Folder());
  config.set_device(device);
  config.set_threads(1);
  config.set_max_tree_nodes(15);
  config.set_kv_cache_mib(8);
  return config;
}

v1::DrafterEngineConfig DrafterConfig(const std::string& type,
                                      const std::string& name) {
  v1::DrafterEngineConfig config;
  config.set_name(name);
  config.set_type(type);
  (*config.mutable_options())["model"] = Folder() + "/" + type;
  return config;
}

// Returns the answer of an engine's own thread.
template <typename Answer, typename Ask>
Answer Await(Ask ask) {
  std::optional<absl::StatusOr<Answer>> answer;
  Notification done;
  ask([&](absl::StatusOr<Answer> given) {
    answer = std::move(given);
    done.Notify();
  });
  done.Wait();
  EXPECT_TRUE(answer->ok()) << answer->status();
  return answer->ok() ? **std::move(answer) : Answer();
}

class NodeEnginesTest : public ::testing::Test {
 protected:
  // Each kind of head twice.
  void SetUp() override {
    const v1::VerifierEngineConfig verifier =
        VerifierConfig(testing::CudaTestDevice());
    std::vector<v1::DrafterEngineConfig> drafters;
    for (const char* type : {"eagle", "dflash"}) {
      for (const char* way : {"stored", "sent"}) {
        drafters.push_back(DrafterConfig(type, absl::StrCat(type, "_", way)));
        PlaceBeside(verifier, drafters.back());
      }
    }
    auto node = BuildNode(verifier, drafters, metrics_);
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
    for (int64_t i = 0; i < kPrompt; ++i) {
      text_.push_back(static_cast<TokenId>((i * i + 7) % testing::kTinyVocab));
    }
    features_.width = std::ssize(kTaps) * kHidden;
    stored_.resize(node_.drafters.size());
  }

  SequenceUpdate Update(int64_t held, uint64_t number, float temperature) {
    return {.sequence = {1, number},
            .round = round_,
            .base_length = held,
            .prefix_hash = PrefixHash(absl::MakeConstSpan(text_).first(held)),
            .new_tokens = {text_.begin() + held, text_.end()},
            .sampling = {.temperature = temperature, .seed = 5}};
  }

  // Returns the features at all taps and stores those of each head.
  void Verify(const TokenTree& tree, float temperature) {
    ++round_;
    VerifyRequest request = {
        .update = Update(verified_, 1, temperature),
        .tree = tree,
        .rule = "auto",
        .features = {.taps = kTaps,
                     .first_position = features_.end_position()}};
    for (const drafter::BuiltDrafter& drafter : node_.drafters) {
      request.features.store.push_back(drafter.info.features.taps);
    }
    const auto result = Await<VerifyResult>([&](auto done) {
      node_.verifier->Verify(request, absl::InfiniteFuture(), std::move(done));
    });
    text_.insert(text_.end(), result.tokens.begin(), result.tokens.end());
    verified_ = std::ssize(text_);
    ASSERT_EQ(result.stored.contracts.size(), stored_.size());
    EXPECT_EQ(result.stored.ring_id, node_.verifier->info().ring.id);
    for (size_t i = 0; i < stored_.size(); ++i) {
      for (const RingSegment& segment : result.stored.contracts[i]) {
        AppendSegment(segment, stored_[i]);
      }
    }
    features_.Extend(result.features);
    EXPECT_EQ(features_.end_position(), verified_ - 1);
  }

  // `index`: of the drafter of the node with the same contract.
  Proposal Propose(const drafter::BuiltDrafter& drafter, size_t index,
                   bool is_sent, int64_t held, uint64_t number,
                   float temperature) {
    ProposeRequest request = {.update = Update(held, number, temperature),
                              .budget = {.max_nodes = 12, .max_depth = 4}};
    const int64_t root = std::ssize(text_) - 1;
    if (is_sent) {
      const int64_t first = std::max<int64_t>(held - 1, 0);
      request.features = {.first_position = first,
                          .width = drafter.info.features.width()};
      AppendTaps(features_.Rows(first, root - first), kTaps,
                 drafter.info.features.taps, kHidden, request.features.data);
    } else {
      request.stored = {.ring = node_.verifier->info().ring,
                        .segments = SegmentsFrom(
                            std::max<int64_t>(held - 1, 0),
                            2 * drafter.info.features.width(), stored_[index])};
    }
    return Await<Proposal>([&](auto done) {
      drafter.engine->Propose(request, absl::InfiniteFuture(), nullptr,
                              std::move(done));
    });
  }

  static void ExpectSame(const Proposal& a, const Proposal& b) {
    EXPECT_GT(a.tree.num_nodes(), 1);
    EXPECT_EQ(a.tree.tokens, b.tree.tokens);
    EXPECT_EQ(a.tree.parents, b.tree.parents);
    EXPECT_EQ(a.tree.log_probs, b.tree.log_probs);
    EXPECT_FALSE(a.lacks_features);
    EXPECT_FALSE(b.lacks_features);
  }

  static constexpr int64_t kHidden = 64;
  const std::vector<int32_t> kTaps = {0, 1, 2, 3};  // all

  prometheus::Registry metrics_;
  NodeEngines node_;
  std::vector<TokenId> text_;
  FeatureRows features_;                          // of all positions, at kTaps
  std::vector<std::vector<RingSegment>> stored_;  // for each drafter
  int64_t verified_ = 0;  // tokens that the verifier holds
  uint64_t round_ = 0;
};

TEST_F(NodeEnginesTest, TreesAreThoseOfFeaturesThatAreSent) {
  for (const drafter::BuiltDrafter& drafter : node_.drafters) {
    EXPECT_TRUE(
        node_.verifier->info().ring.ReachedFrom(drafter.info.device_id));
  }
  int64_t held = 0;
  for (float temperature : {0.0f, 0.8f, 0.0f, 0.8f}) {
    TokenTree tree = TokenTree::RootOnly(text_.back());
    tree.Add(0, 3, -1);
    tree.Add(1, 4, -2);
    Verify(tree, temperature);
    for (size_t i = 0; i < node_.drafters.size(); i += 2) {
      ExpectSame(
          Propose(node_.drafters[i], i, false, held, 2, temperature),
          Propose(node_.drafters[i + 1], i + 1, true, held, 2, temperature));
    }
    held = std::ssize(text_);
  }
  // A drafter that lost the sequence reads all of it.
  ExpectSame(Propose(node_.drafters[0], 0, false, 0, 3, 0),
             Propose(node_.drafters[1], 1, true, 0, 3, 0));
}

// The drafter acts like one of another process. A GPU's memory cannot be opened
// by its own process.
TEST_F(NodeEnginesTest, ADrafterApartReadsTheRingByItsHandle) {
  if (testing::CudaTestDevice() != "emulated") {
    GTEST_SKIP() << "needs the emulated device";
  }
  v1::DrafterEngineConfig config = DrafterConfig("eagle", "apart");
  PlaceBeside(VerifierConfig("emulated"), config);
  drafter::DrafterRegistry types("drafter type");
  drafter::RegisterDrafters(types);
  const auto apart = drafter::BuildDrafter(types, config, metrics_);
  ASSERT_TRUE(apart.ok()) << apart.status();
  Verify(TokenTree::RootOnly(text_.back()), 0);
  ExpectSame(Propose(*apart, 0, false, 0, 2, 0),
             Propose(node_.drafters[1], 1, true, 0, 2, 0));
}

// A verifier that is not there any more: the drafter says so, and takes what is
// sent.
TEST_F(NodeEnginesTest, ARingThatIsGoneIsTold) {
  Verify(TokenTree::RootOnly(text_.back()), 0);
  const drafter::BuiltDrafter& eagle = node_.drafters[0];
  ProposeRequest request = {
      .update = Update(0, 2, 0),
      .budget = {.max_nodes = 12, .max_depth = 4},
      .stored = {.ring = node_.verifier->info().ring, .segments = stored_[0]}};
  request.stored.ring.id += 1;
  request.stored.ring.handle = "2147483646/5";
  const auto lacking = Await<Proposal>([&](auto done) {
    eagle.engine->Propose(request, absl::InfiniteFuture(), nullptr,
                          std::move(done));
  });
  EXPECT_TRUE(lacking.lacks_features);
  EXPECT_TRUE(lacking.ring_unreadable);
  EXPECT_EQ(lacking.tree.num_nodes(), 1);
  ExpectSame(Propose(eagle, 0, true, 0, 2, 0),
             Propose(node_.drafters[1], 1, true, 0, 2, 0));
}

TEST(PlaceBesideTest, NetworksAreWhereTheVerifierIs) {
  v1::VerifierEngineConfig verifier = VerifierConfig("emulated");
  v1::DrafterEngineConfig head = DrafterConfig("eagle", "head");
  PlaceBeside(verifier, head);
  EXPECT_EQ(head.model(), Folder());
  EXPECT_EQ(head.options().at("device"), "emulated");
  v1::DrafterEngineConfig on_cpu = DrafterConfig("eagle", "on_cpu");
  (*on_cpu.mutable_options())["compute_type"] = "int8";
  v1::DrafterEngineConfig lookup;
  lookup.set_type("prompt_lookup");
  for (v1::DrafterEngineConfig* drafter : {&on_cpu, &lookup}) {
    PlaceBeside(verifier, *drafter);
    EXPECT_FALSE(drafter->options().contains("device"));
  }
}

TEST(NodeOfCpusTest, FeaturesAreSent) {
  prometheus::Registry metrics;
  const v1::VerifierEngineConfig verifier = VerifierConfig("cpu");
  v1::DrafterEngineConfig head = DrafterConfig("eagle", "head");
  PlaceBeside(verifier, head);
  const auto node = BuildNode(verifier, {head}, metrics);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->drafters[0].info.device_id, 0u);
  EXPECT_EQ(node->verifier->info().ring.id, 0u);
  EXPECT_FALSE(node->drafters[0].info.features.taps.empty());
}

TEST(NodeWithoutARingTest, FeaturesAreSent) {
  prometheus::Registry metrics;
  v1::VerifierEngineConfig verifier = VerifierConfig(testing::CudaTestDevice());
  verifier.set_feature_ring_mib(0);
  v1::DrafterEngineConfig head = DrafterConfig("eagle", "head");
  PlaceBeside(verifier, head);
  const auto node = BuildNode(verifier, {head}, metrics);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->verifier->info().ring.id, 0u);
}

}  // namespace
}  // namespace espalier::node
