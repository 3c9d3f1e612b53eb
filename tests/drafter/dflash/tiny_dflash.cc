#include "tests/drafter/dflash/tiny_dflash.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/check.h"
#include "gtest/gtest.h"

namespace espalier::testing {
namespace {

constexpr int64_t kLayers = 2;
constexpr int64_t kTaps = 2;

// mean - spread .. mean + spread in 32 steps, exact in bf16 where the two are
// powers of two.
TinyTensor Draw(std::mt19937_64& random, std::vector<int64_t> shape,
                float spread, float mean = 0) {
  TinyTensor tensor{.shape = std::move(shape)};
  const int64_t size = std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                       int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < size; ++i) {
    const auto step = static_cast<int64_t>(random() % 33) - 16;
    tensor.values.push_back(mean + spread * static_cast<float>(step) / 16);
  }
  return tensor;
}

TinyTensors DrawTensors(const TinyDflashShape& shape) {
  const auto& [hidden, heads, kv_heads, head_dim, ffn] = shape;
  std::mt19937_64 random(31);
  TinyTensors tensors;
  auto norm = [&](const std::string& name, int64_t size) {
    tensors[name + ".weight"] = Draw(random, {size}, 0.25f, 1);
  };
  auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
    tensors[name + ".weight"] = Draw(random, {rows, columns}, 0.25f);
  };
  matrix("fc", hidden, kTaps * hidden);
  norm("hidden_norm", hidden);
  norm("norm", hidden);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    norm(layer + "input_layernorm", hidden);
    norm(layer + "post_attention_layernorm", hidden);
    norm(layer + "self_attn.q_norm", head_dim);
    norm(layer + "self_attn.k_norm", head_dim);
    matrix(layer + "self_attn.q_proj", heads * head_dim, hidden);
    matrix(layer + "self_attn.k_proj", kv_heads * head_dim, hidden);
    matrix(layer + "self_attn.v_proj", kv_heads * head_dim, hidden);
    matrix(layer + "self_attn.o_proj", hidden, heads * head_dim);
    matrix(layer + "mlp.gate_proj", ffn, hidden);
    matrix(layer + "mlp.up_proj", ffn, hidden);
    matrix(layer + "mlp.down_proj", hidden, ffn);
  }
  return tensors;
}

nlohmann::json Config(const TinyDflashShape& shape) {
  return {{"architectures", {"DFlashDraftModel"}},
          {"model_type", "qwen3"},
          {"num_hidden_layers", kLayers},
          {"num_target_layers", 2},
          {"hidden_size", shape.hidden},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"intermediate_size", shape.ffn},
          {"vocab_size", kTinyVocab},
          {"max_position_embeddings", kTinyMaxPositions},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000.0},
          {"rope_scaling", nullptr},
          {"sliding_window", nullptr},
          {"layer_types", {"full_attention", "full_attention"}},
          {"attention_bias", false},
          {"block_size", kTinyBlock},
          {"dflash_config",
           {{"mask_token_id", kTinyImStart}, {"target_layer_ids", {0, 1}}}}};
}

// A folder that exists while this process runs.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(::testing::TempDir() + "tiny_dflash_XXXXXX") {
    ESPALIER_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TinyDflash MakeTinyDflash(int64_t draft_vocab, const TinyDflashShape& shape) {
  TinyDflash drafter = {.config = Config(shape), .tensors = DrawTensors(shape)};
  if (draft_vocab < kTinyVocab) {
    drafter.config["draft_vocab_size"] = draft_vocab;
    drafter.tensors["d2t"] = {
        .shape = {draft_vocab},
        .integers = std::vector<int64_t>(static_cast<size_t>(draft_vocab), 0)};
  }
  return drafter;
}

void WriteTinyDflash(const TinyDflash& drafter, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << drafter.config.dump(1);
  WriteSafetensors(folder + "/model.safetensors", drafter.tensors);
}

TinyDflashFolders TinyDflashOnDisk(int64_t draft_vocab) {
  static const TemporaryFolder folder;
  const TinyDflashFolders folders = {
      .drafter = absl::StrCat(folder.path(), "/drafter_", draft_vocab),
      .target = folder.path() + "/target"};
  if (!std::filesystem::exists(folders.target)) WriteTinyLlama(folders.target);
  if (!std::filesystem::exists(folders.drafter)) {
    WriteTinyDflash(MakeTinyDflash(draft_vocab), folders.drafter);
  }
  return folders;
}

FeatureRows TinyFeatures(const std::vector<int32_t>& tokens, int64_t width) {
  FeatureRows rows{.width = width};
  std::mt19937_64 random(7);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    random.seed(random() + tokens[i]);
    for (int64_t value = 0; value < width; ++value) {
      rows.data.push_back(
          FloatToBf16(static_cast<float>(random() % 256) / 64 - 2));
    }
  }
  return rows;
}

}  // namespace espalier::testing
