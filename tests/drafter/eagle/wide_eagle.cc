#include "tests/drafter/eagle/wide_eagle.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace espalier::testing {
namespace {

constexpr int64_t kTargetHidden = 64;  // of the wide Llama
constexpr int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 64, kFfn = 128;
constexpr int64_t kTaps = 3;

// Draws tensors into a head: numbers that bf16 holds exactly.
class TensorDrawer {
 public:
  TensorDrawer(uint64_t seed, TinyTensors* tensors)
      : random_(seed), tensors_(*tensors) {}

  void Matrix(const std::string& name, int64_t rows, int64_t columns,
              float spread = 0.25f) {
    Add(name + ".weight", {rows, columns}, spread, 0);
  }
  void Norm(const std::string& name, int64_t size) {
    Add(name + ".weight", {size}, 0.25f, 1);
  }
  void Bias(const std::string& name, int64_t size) {
    Add(name + ".bias", {size}, 0.25f, 0);
  }

 private:
  void Add(const std::string& name, std::vector<int64_t> shape, float spread,
           float mean) {
    TinyTensor tensor{.shape = std::move(shape)};
    const int64_t size =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1},
                        std::multiplies<>());
    for (int64_t i = 0; i < size; ++i) {
      const auto step = static_cast<int64_t>(random_() % 33) - 16;
      tensor.values.push_back(mean + spread * static_cast<float>(step) / 16);
    }
    tensors_[name] = std::move(tensor);
  }

  std::mt19937_64 random_;
  TinyTensors& tensors_;
};

void DrawLayer(const EagleLayout& layout, TensorDrawer& draw) {
  const int64_t inputs = (layout.is_eagle1 ? 1 : 2) * layout.hidden;
  const std::string layer = layout.prefix + layout.layer;
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  draw.Matrix(attention + "q_proj", kHeads * kHeadDim, inputs);
  draw.Matrix(attention + "k_proj", kKvHeads * kHeadDim, inputs);
  draw.Matrix(attention + "v_proj", kKvHeads * kHeadDim, inputs);
  draw.Matrix(attention + "o_proj", layout.hidden, kHeads * kHeadDim);
  if (layout.qk_norm) {
    draw.Norm(attention + "q_norm", kHeadDim);
    draw.Norm(attention + "k_norm", kHeadDim);
  }
  draw.Matrix(mlp + "gate_proj", kFfn, layout.hidden);
  draw.Matrix(mlp + "up_proj", kFfn, layout.hidden);
  draw.Matrix(mlp + "down_proj", layout.hidden, kFfn);
  draw.Norm(layer + "post_attention_layernorm", layout.hidden);
  if (layout.is_eagle1) return;
  draw.Norm(layer + "input_layernorm", layout.hidden);
  draw.Norm(layer + "hidden_norm", layout.hidden);
}

void DrawEnds(const EagleLayout& layout, TensorDrawer& draw) {
  const std::string& prefix = layout.prefix;
  const int64_t width =
      layout.is_eagle1 ? 2 * layout.hidden : kTaps * kTargetHidden;
  // EAGLE-1's feature is not normed: a larger matrix would let it grow level by
  // level, and rounding with it.
  draw.Matrix(prefix + "fc", layout.hidden, width,
              layout.is_eagle1 ? 0.0625f : 0.25f);
  if (layout.fc_bias) draw.Bias(prefix + "fc", layout.hidden);
  for (int64_t i = 0; layout.fc_norm && i < kTaps; ++i) {
    draw.Norm(absl::StrCat(prefix, "fc_norm.", i), kTargetHidden);
  }
  if (layout.norm_before_fc) draw.Norm(prefix + "input_norm", width);
  if (!layout.is_eagle1) draw.Norm(prefix + "norm", layout.hidden);
  if (layout.own_embedding) {
    draw.Matrix("embed_tokens", kTinyVocab, layout.hidden, 1);
  }
  if (layout.own_head) {
    draw.Matrix("lm_head", layout.draft_vocab, layout.hidden, 0.5f);
  }
}

nlohmann::json ConfigOf(const EagleLayout& layout) {
  nlohmann::json config = {
      {"architectures",
       {layout.is_eagle1 ? "LlamaForCausalLM" : "LlamaForCausalLMEagle3"}},
      {"model_type", "llama"},
      {"hidden_size", layout.hidden},
      {"intermediate_size", kFfn},
      {"num_hidden_layers", 1},
      {"num_attention_heads", kHeads},
      {"num_key_value_heads", kKvHeads},
      {"head_dim", kHeadDim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", 1e-5},
      {"max_position_embeddings", kTinyMaxPositions},
      {"vocab_size", kTinyVocab}};
  if (layout.draft_vocab != kTinyVocab) {
    config["draft_vocab_size"] = layout.draft_vocab;
  }
  if (layout.window > 0) {
    config["layer_types"] = {"sliding_attention"};
    config["sliding_window"] = layout.window;
  }
  if (layout.is_eagle1) return config;
  config["eagle_aux_hidden_state_layer_ids"] = {0, 1, 2};
  config["target_hidden_size"] = kTargetHidden;
  config["fc_norm"] = layout.fc_norm;
  config["norm_before_fc"] = layout.norm_before_fc;
  config["norm_before_residual"] = layout.norm_before_residual;
  config["norm_output"] = layout.norm_output;
  return config;
}

}  // namespace

std::vector<EagleLayout> EagleLayouts() {
  return {
      {.name = "eagle1",
       .is_eagle1 = true,
       .layer = "layers.0.",
       .own_head = false,
       .draft_vocab = kTinyVocab},
      {.name = "eagle1_bias_own_head",
       .is_eagle1 = true,
       .layer = "layers.0.",
       .fc_bias = true,
       .own_embedding = true,
       .draft_vocab = kTinyVocab},
      {.name = "eagle3"},
      {.name = "eagle3_window", .window = 20},
      {.name = "eagle3_target_head", .own_head = false},
      {.name = "eagle3_speculators",
       .layer = "layers.0.",
       .own_embedding = true,
       .norm_before_residual = true},
      {.name = "eagle3_speculators_qwen3",
       .prefix = "model.",
       .layer = "layers.0.",
       .norm_before_fc = true,
       .qk_norm = true},
      {.name = "eagle3_wide_hidden", .own_embedding = true, .hidden = 128},
      {.name = "eagle31", .fc_norm = true, .norm_output = true},
  };
}

WideEagle MakeWideEagle(const EagleLayout& layout) {
  WideEagle head = {.config = ConfigOf(layout)};
  TensorDrawer draw(41, &head.tensors);
  DrawLayer(layout, draw);
  DrawEnds(layout, draw);
  if (layout.draft_vocab != kTinyVocab) {
    // Draft token i is the target's token 2 i + 1.
    std::vector<int64_t> offsets(layout.draft_vocab);
    std::iota(offsets.begin(), offsets.end(), 1);
    head.tensors["d2t"] = {.shape = {layout.draft_vocab},
                           .integers = std::move(offsets)};
  }
  return head;
}

void WriteWideEagle(const EagleLayout& layout, const std::string& folder) {
  const WideEagle head = MakeWideEagle(layout);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << head.config.dump(1);
  WriteSafetensors(folder + "/model.safetensors", head.tensors);
}

}  // namespace espalier::testing
