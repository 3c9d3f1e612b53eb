// Folders as published for Qwen3-8B and Llama-3.1-8B: names of tensors, fields
// and numbers of layers and heads are those, other sizes are small. They load
// and draft on the CPU and on the emulated device.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/model/cuda/cuda_weights.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/dflash/dflash_weights.h"
#include "drafter/eagle/eagle_files.h"
#include "drafter/heads/head_target.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter {
namespace {

using nlohmann::json;
using testing::TinyTensor;
using testing::TinyTensors;

// These sizes stand for 4096, 12288 or 14336, 128 and 32 / 8.
constexpr int64_t kHidden = 128, kFfn = 192, kDim = 128, kHeads = 4;
constexpr int64_t kKvHeads = 1, kVocab = 300, kDraftVocab = 80;

TinyTensor Drawn(std::vector<int64_t> shape) {
  static std::mt19937_64 random(3);
  int64_t size = 1;
  for (int64_t n : shape) size *= n;
  const bool is_norm = shape.size() == 1;
  TinyTensor tensor{.shape = std::move(shape)};
  for (int64_t i = 0; i < size; ++i) {
    const float step = static_cast<float>(random() % 33) / 16 - 1;
    tensor.values.push_back(is_norm ? 1 + step / 4 : step / 8);
  }
  return tensor;
}

void Write(const std::string& folder, const json& config,
           const TinyTensors& tensors) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config.dump(1);
  testing::WriteSafetensors(folder + "/model.safetensors", tensors);
}

// Returns what a drafter takes of its target.
std::string Target(const std::string& folder, const char* architecture,
                   int64_t layers) {
  const json config = {
      {"architectures", {architecture}},
      {"model_type",
       std::string(architecture) == "LlamaForCausalLM" ? "llama" : "qwen3"},
      {"hidden_size", kHidden},
      {"intermediate_size", kFfn},
      {"num_hidden_layers", layers},
      {"num_attention_heads", kHeads},
      {"num_key_value_heads", kKvHeads},
      {"head_dim", kDim},
      {"vocab_size", kVocab},
      {"max_position_embeddings", 1024},
      {"hidden_act", "silu"},
      {"rms_norm_eps", 1e-6},
      {"rope_theta", 1000000.0},
      {"tie_word_embeddings", false}};
  TinyTensors tensors;
  tensors["model.embed_tokens.weight"] = Drawn({kVocab, kHidden});
  tensors["lm_head.weight"] = Drawn({kVocab, kHidden});
  Write(folder + "/target", config, tensors);
  return folder + "/target";
}

std::string NewFolder(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "published_", getpid(), "_", name);
}

// Adds the eleven tensors of a layer, or nine without norms of heads.
void AddLayer(const std::string& layer, int64_t inputs, bool qk_norm,
              TinyTensors& tensors) {
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  tensors[layer + "input_layernorm.weight"] = Drawn({kHidden});
  tensors[attention + "q_proj.weight"] = Drawn({kHeads * kDim, inputs});
  tensors[attention + "k_proj.weight"] = Drawn({kKvHeads * kDim, inputs});
  tensors[attention + "v_proj.weight"] = Drawn({kKvHeads * kDim, inputs});
  tensors[attention + "o_proj.weight"] = Drawn({kHidden, kHeads * kDim});
  if (qk_norm) {
    tensors[attention + "q_norm.weight"] = Drawn({kDim});
    tensors[attention + "k_norm.weight"] = Drawn({kDim});
  }
  tensors[layer + "post_attention_layernorm.weight"] = Drawn({kHidden});
  tensors[mlp + "gate_proj.weight"] = Drawn({kFfn, kHidden});
  tensors[mlp + "up_proj.weight"] = Drawn({kFfn, kHidden});
  tensors[mlp + "down_proj.weight"] = Drawn({kHidden, kFfn});
}

void ExpectDrafts(const std::string& type, const std::string& folder,
                  const std::string& target, int64_t taps,
                  const std::map<std::string, std::string>& options = {}) {
  for (const std::string& device :
       {std::string("cpu"), testing::CudaTestDevice()}) {
    if (device != "cpu" && !testing::HasCudaTestDevice()) continue;
    SCOPED_TRACE(device);
    std::map<std::string, std::string> all = options;
    all.insert({{"model", folder}, {"device", device}});
    const auto drafter = MakeDrafter(
        type, {.options = all, .target_folder = target, .vocab_size = kVocab});
    const FeatureContract contract = WantedFeatures(*drafter);
    ASSERT_EQ(contract.width(), taps * kHidden);
    std::mt19937_64 random(4);
    const std::vector<TokenId> tokens = RandomTokens(random, 70, kVocab);
    FeatureRows features{.width = contract.width()};
    for (int64_t i = 0; i < 69 * contract.width(); ++i) {
      features.data.push_back(
          FloatToBf16(static_cast<float>(random() % 256) / 64 - 2));
    }
    const SequenceView view = {.id = {1, 1},
                               .tokens = tokens,
                               .budget = {.max_nodes = 12, .max_depth = 5}};
    const TokenTree tree = DraftOne(*drafter, ViewAndFeatures{view, &features});
    EXPECT_GT(tree.num_nodes(), 5);
  }
}

TEST(PublishedLayoutsTest, DflashForQwen3Of8B) {
  const std::string folder = NewFolder("dflash");
  const std::string target = Target(folder, "Qwen3ForCausalLM", 36);
  const json config = {
      {"architectures", {"DFlashDraftModel"}},
      {"model_type", "qwen3"},
      {"block_size", 16},
      {"dflash_config",
       {{"mask_token_id", kVocab - 1},
        {"target_layer_ids", {1, 9, 17, 25, 33}}}},
      {"num_target_layers", 36},
      {"num_hidden_layers", 5},
      {"hidden_size", kHidden},
      {"intermediate_size", kFfn},
      {"num_attention_heads", kHeads},
      {"num_key_value_heads", kKvHeads},
      {"head_dim", kDim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", 1e-6},
      {"rope_theta", 1000000},
      {"rope_scaling", nullptr},
      {"max_position_embeddings", 1024},
      {"layer_types",
       json::array({"full_attention", "full_attention", "full_attention",
                    "full_attention", "full_attention"})},
      {"sliding_window", nullptr},
      {"attention_bias", false},
      {"vocab_size", kVocab},
      {"tie_word_embeddings", false}};
  TinyTensors tensors;
  for (int i = 0; i < 5; ++i) {
    AddLayer(absl::StrCat("layers.", i, "."), kHidden, true, tensors);
  }
  tensors["fc.weight"] = Drawn({kHidden, 5 * kHidden});
  tensors["hidden_norm.weight"] = Drawn({kHidden});
  tensors["norm.weight"] = Drawn({kHidden});
  ASSERT_EQ(tensors.size(), 58u);
  Write(folder + "/drafter", config, tensors);
  ExpectDrafts("dflash", folder + "/drafter", target, 5);

  // Random weights need no files but config.json.
  for (const std::string& of : {folder + "/drafter", target}) {
    std::filesystem::remove(of + "/model.safetensors");
  }
  ExpectDrafts("dflash", folder + "/drafter", target, 5,
               {{"random_weights", "1"}});
  std::filesystem::remove_all(folder);
}

json Eagle3Layer(const char* model_type) {
  return {{"model_type", model_type},
          {"hidden_size", kHidden},
          {"intermediate_size", kFfn},
          {"num_hidden_layers", 1},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kKvHeads},
          {"head_dim", kDim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"max_position_embeddings", 1024},
          {"vocab_size", kVocab}};
}

TinyTensors Eagle3Tensors(const std::string& layer) {
  TinyTensors tensors;
  AddLayer(layer, 2 * kHidden, false, tensors);
  tensors[layer + "hidden_norm.weight"] = Drawn({kHidden});
  tensors["fc.weight"] = Drawn({kHidden, 3 * kHidden});
  tensors["norm.weight"] = Drawn({kHidden});
  tensors["lm_head.weight"] = Drawn({kDraftVocab, kHidden});
  tensors["d2t"] = {.shape = {kDraftVocab},
                    .integers = std::vector<int64_t>(kDraftVocab, 3)};
  tensors["t2d"] = {.shape = {kVocab},
                    .integers = std::vector<int64_t>(kVocab, 0)};
  return tensors;
}

// SafeAILab's names, and SpecForge's: `midlayer`, the target's embedding.
TEST(PublishedLayoutsTest, Eagle3ForLlamaOf8B) {
  const std::string folder = NewFolder("eagle3_llama");
  const std::string target = Target(folder, "LlamaForCausalLM", 32);
  json config = Eagle3Layer("llama");
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["draft_vocab_size"] = kDraftVocab;
  Write(folder + "/head", config, Eagle3Tensors("midlayer."));
  ExpectDrafts("eagle", folder + "/head", target, 3);
  std::filesystem::remove_all(folder);
}

// The names are the same for Qwen3, and those of speculators with an own
// embedding.
TEST(PublishedLayoutsTest, Eagle3ForQwen3Of8B) {
  const std::string folder = NewFolder("eagle3_qwen3");
  const std::string target = Target(folder, "Qwen3ForCausalLM", 36);
  json config = Eagle3Layer("llama");
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["draft_vocab_size"] = kDraftVocab;
  Write(folder + "/head", config, Eagle3Tensors("midlayer."));
  ExpectDrafts("eagle", folder + "/head", target, 3);

  const json speculators = {{"architectures", {"Eagle3Speculator"}},
                            {"speculators_model_type", "eagle3"},
                            {"transformer_layer_config", Eagle3Layer("llama")},
                            {"draft_vocab_size", kDraftVocab},
                            {"norm_before_residual", true},
                            {"target_hidden_size", nullptr}};
  TinyTensors tensors = Eagle3Tensors("layers.0.");
  tensors["embed_tokens.weight"] = Drawn({kVocab, kHidden});
  Write(folder + "/speculators", speculators, tensors);
  ExpectDrafts("eagle", folder + "/speculators", target, 3);

  for (const std::string& of : {folder + "/head", target}) {
    std::filesystem::remove(of + "/model.safetensors");
  }
  ExpectDrafts("eagle", folder + "/head", target, 3, {{"random_weights", "1"}});
  std::filesystem::remove_all(folder);
}

// Returns the shapes of full size in the repository: random weights take no
// memory before they are read.
HeadTarget TargetOf(const std::string& shape) {
  auto target = OpenHeadTarget(
      {.target_folder = SourcePath("deploy/shapes/") + shape}, 1);
  EXPECT_TRUE(target.ok()) << target.status();
  return *std::move(target);
}

TEST(PublishedShapesTest, DflashHas58Tensors) {
  const std::string folder = SourcePath("deploy/shapes/qwen3-8b-dflash");
  const auto config = ReadDflashConfig(folder, TargetOf("qwen3-8b"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(CheckCudaCovers(config->layers).ok());
  EXPECT_EQ(config->taps, (std::vector<int32_t>{2, 10, 18, 26, 34}));
  const auto files = OpenDflash(folder, *config, 1);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->tensors().size(), 58u);
  int64_t numbers = 0;
  for (const auto& [name, view] : files->tensors()) {
    int64_t size = 1;
    for (int64_t n : view.shape) size *= n;
    numbers += size;
  }
  EXPECT_NEAR(static_cast<double>(numbers), 1048.6e6, 0.1e6);
}

TEST(PublishedShapesTest, ALanguageModelOf1BFitsLlamaOf8B) {
  const ModelConfig small = TargetOf("llama-3.2-1b").config;
  EXPECT_TRUE(CheckCudaCovers(small).ok());
  EXPECT_EQ(small.vocab_size, TargetOf("llama-3.1-8b").config.vocab_size);
  EXPECT_TRUE(small.tied_head);
  EXPECT_EQ(small.head_dim, 64);
}

TEST(PublishedShapesTest, Eagle3HeadsHaveTheSizesOfThePublishedOnes) {
  struct Published {
    std::string head, target;
    std::vector<int32_t> taps;
    int64_t ffn;
  };
  for (const Published& wanted :
       {Published{"qwen3-8b-eagle3", "qwen3-8b", {2, 18, 33}, 12288},
        Published{"llama-3.1-8b-eagle3", "llama-3.1-8b", {2, 16, 29}, 14336}}) {
    SCOPED_TRACE(wanted.head);
    const auto head = OpenEagle(SourcePath("deploy/shapes/") + wanted.head,
                                TargetOf(wanted.target), 1);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_TRUE(CheckCudaCovers(head->config.layer).ok());
    EXPECT_EQ(head->config.taps, wanted.taps);
    using Shape = std::vector<int64_t>;
    const auto shape = [&](const char* name) {
      const auto found = head->files.Find(name);
      return found.ok() ? found->shape : Shape{};
    };
    EXPECT_EQ(shape("fc.weight"), (Shape{4096, 12288}));
    EXPECT_EQ(shape("lm_head.weight"), (Shape{32000, 4096}));
    EXPECT_EQ(shape("midlayer.self_attn.q_proj.weight"), (Shape{4096, 8192}));
    EXPECT_EQ(shape("midlayer.self_attn.k_proj.weight"), (Shape{1024, 8192}));
    EXPECT_EQ(shape("midlayer.mlp.up_proj.weight"), (Shape{wanted.ffn, 4096}));
    EXPECT_EQ(shape("midlayer.hidden_norm.weight"), (Shape{4096}));
  }
}

}  // namespace
}  // namespace espalier::drafter
