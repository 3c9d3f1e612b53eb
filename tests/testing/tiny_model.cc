#include "tests/testing/tiny_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace espalier::testing {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLayers = 2;
constexpr int64_t kHidden = 48;
constexpr int64_t kHeads = kTinyHeads;

// The shape of a Llama or Qwen.
struct Shape {
  int64_t hidden = kHidden;
  int64_t heads = kHeads;
  int64_t kv_heads = kTinyKvHeads;
  int64_t head_dim = 8;
  int64_t ffn = 96;
};
constexpr Shape kTiny, kTinyQwen3 = {.head_dim = 16};
// The least that kernels for GPUs cover.
constexpr Shape kWide = {
    .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = 128};
constexpr Shape kWideQwen3 = {
    .hidden = 128, .heads = 2, .kv_heads = 1, .head_dim = 128, .ffn = 192};
constexpr Shape kWideGemma3 = {
    .hidden = 64, .heads = 2, .kv_heads = 1, .head_dim = 256, .ffn = 128};

uint16_t ToBf16Bits(float value) {  // exact for what RoundToBf16 returns
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

float RoundToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value) + 0x8000;
  return std::bit_cast<float>(bits & 0xFFFF0000u);
}

// Draws weights. The sum of four uniform numbers stands for a normal one: the
// standard library's normal distribution differs between implementations.
class WeightSource {
 public:
  explicit WeightSource(uint64_t seed) : random_(seed) {}

  TinyTensor Draw(std::vector<int64_t> shape, float deviation, float mean = 0) {
    TinyTensor tensor{.shape = std::move(shape)};
    int64_t size = 1;
    for (int64_t n : tensor.shape) size *= n;
    for (int64_t i = 0; i < size; ++i) {
      float sum = -2;
      for (int draw = 0; draw < 4; ++draw) sum += Uniform();
      tensor.values.push_back(
          RoundToBf16(mean + deviation * sum * std::sqrt(3.0f)));
    }
    return tensor;
  }

  // Returns a product's weight: keeps the size of what it multiplies, times
  // `gain`.
  TinyTensor Matrix(int64_t rows, int64_t columns, int64_t in, float gain = 1) {
    return Draw({rows, columns}, gain / std::sqrt(static_cast<float>(in)));
  }

  TinyTensor Scale(int64_t size) { return Draw({size}, 0.1f, 1.0f); }
  TinyTensor Bias(int64_t size) { return Draw({size}, 0.1f); }

 private:
  float Uniform() {
    return static_cast<float>(random_() >> 40) / static_cast<float>(1 << 24);
  }

  std::mt19937_64 random_;
};

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  ESPALIER_CHECK(file.good());
}

std::string Utf8(int code_point) {  // below 0x800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// GPT-2's printable characters for the 256 bytes.
Json ByteVocabulary() {
  Json vocab = Json::object();
  int unprintable = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) ||
                           (byte >= 161 && byte <= 172) || byte >= 174;
    vocab[Utf8(printable ? byte : 256 + unprintable++)] = byte;
  }
  return vocab;
}

void WriteTokenizer(const std::string& folder) {
  auto special = [](int32_t id, const char* text) {
    return Json{{"id", id},        {"content", text}, {"single_word", false},
                {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                {"special", true}};
  };
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({special(kTinyImStart, "<|im_start|>"),
                                    special(kTinyImEnd, "<|im_end|>")})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", ByteVocabulary()},
        {"merges", Json::array()}}}};
  WriteText(folder + "/tokenizer.json", tokenizer.dump(1));
}

void WriteFolder(const std::string& folder, const Json& config,
                 const TinyTensors& tensors) {
  std::filesystem::create_directories(folder);
  WriteText(folder + "/config.json", config.dump(1));
  WriteTokenizer(folder);
  WriteSafetensors(folder + "/model.safetensors", tensors);
}

void DrawLlamaLayers(const Shape& shape, WeightSource& source,
                     TinyTensors& tensors) {
  const int64_t hidden = shape.hidden, ffn = shape.ffn;
  const int64_t q = shape.heads * shape.head_dim;
  const int64_t kv = shape.kv_heads * shape.head_dim;
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    tensors[layer + "input_layernorm.weight"] = source.Scale(hidden);
    tensors[layer + "self_attn.q_proj.weight"] =
        source.Matrix(q, hidden, hidden, 2);
    tensors[layer + "self_attn.k_proj.weight"] =
        source.Matrix(kv, hidden, hidden);
    tensors[layer + "self_attn.v_proj.weight"] =
        source.Matrix(kv, hidden, hidden, 2);
    tensors[layer + "self_attn.o_proj.weight"] = source.Matrix(hidden, q, q);
    tensors[layer + "post_attention_layernorm.weight"] = source.Scale(hidden);
    tensors[layer + "mlp.gate_proj.weight"] =
        source.Matrix(ffn, hidden, hidden);
    tensors[layer + "mlp.up_proj.weight"] =
        source.Matrix(ffn, hidden, hidden, 2);
    tensors[layer + "mlp.down_proj.weight"] =
        source.Matrix(hidden, ffn, ffn, 2);
  }
}

Json LlamaConfig(const Shape& shape) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", kLayers},
          {"hidden_size", shape.hidden},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"intermediate_size", shape.ffn},
          {"vocab_size", kTinyVocab},
          {"max_position_embeddings", kTinyMaxPositions},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", false},
          {"bos_token_id", kTinyImStart},
          {"eos_token_id", kTinyImEnd}};
}

// `more`: fields of config.json beside a Llama's.
TinyTensors WriteLlama(const std::string& folder, const Shape& shape,
                       uint64_t seed, const Json& more = Json::object()) {
  const int64_t hidden = shape.hidden;
  WeightSource source(seed);
  TinyTensors tensors;
  tensors["model.embed_tokens.weight"] = source.Draw({kTinyVocab, hidden}, 1);
  DrawLlamaLayers(shape, source, tensors);
  tensors["model.norm.weight"] = source.Scale(hidden);
  tensors["lm_head.weight"] = source.Matrix(kTinyVocab, hidden, hidden, 4);
  Json config = LlamaConfig(shape);
  config.update(more);
  WriteFolder(folder, config, tensors);
  return tensors;
}

Json MistralFields() {
  return {{"architectures", {"MistralForCausalLM"}},
          {"model_type", "mistral"},
          {"sliding_window", kTinyWindow}};
}

void DrawHeadNorms(const Shape& shape, WeightSource& source,
                   TinyTensors& tensors) {
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string attention =
        absl::StrCat("model.layers.", i, ".self_attn.");
    tensors[attention + "q_norm.weight"] =
        source.Draw({shape.head_dim}, 0.5f, 1.5f);
    tensors[attention + "k_norm.weight"] =
        source.Draw({shape.head_dim}, 0.3f, 1);
  }
}

// Replaces the MLP of a layer by experts.
constexpr int64_t kExperts = 6;
void DrawExperts(const Shape& shape, int64_t ffn, int64_t layer,
                 WeightSource& source, TinyTensors& tensors) {
  const std::string mlp = absl::StrCat("model.layers.", layer, ".mlp.");
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    tensors.erase(mlp + name + ".weight");
  }
  const int64_t hidden = shape.hidden;
  TinyTensor router = source.Matrix(kExperts, hidden, hidden, 2);
  std::copy_n(router.values.begin() + hidden, hidden,
              router.values.begin() + 4 * hidden);
  tensors[mlp + "gate.weight"] = router;
  for (int64_t i = 0; i < kExperts; ++i) {
    const std::string expert = absl::StrCat(mlp, "experts.", i, ".");
    tensors[expert + "gate_proj.weight"] = source.Matrix(ffn, hidden, hidden);
    tensors[expert + "up_proj.weight"] = source.Matrix(ffn, hidden, hidden, 2);
    tensors[expert + "down_proj.weight"] = source.Matrix(hidden, ffn, ffn, 2);
  }
}

// `expert_ffn`: of each expert; 0: the layers are dense.
TinyTensors WriteQwen3(const std::string& folder, const Shape& shape,
                       uint64_t seed, int64_t expert_ffn = 0) {
  WeightSource source(seed);
  TinyTensors tensors;
  // The head is the embedding: a small one, or the last token would win.
  tensors["model.embed_tokens.weight"] =
      source.Draw({kTinyVocab, shape.hidden}, 0.3f);
  DrawLlamaLayers(shape, source, tensors);
  DrawHeadNorms(shape, source, tensors);
  tensors["model.norm.weight"] = source.Scale(shape.hidden);
  Json config = LlamaConfig(shape);
  config.update({{"architectures", {"Qwen3ForCausalLM"}},
                 {"model_type", "qwen3"},
                 {"rope_theta", 1e6},
                 {"use_sliding_window", false},
                 {"tie_word_embeddings", true}});
  if (expert_ffn > 0) {
    for (int64_t i = 0; i < kLayers; ++i) {
      DrawExperts(shape, expert_ffn, i, source, tensors);
    }
    config.update({{"architectures", {"Qwen3MoeForCausalLM"}},
                   {"model_type", "qwen3_moe"},
                   {"num_experts", kExperts},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", expert_ffn},
                   {"norm_topk_prob", true},
                   {"decoder_sparse_step", 1},
                   {"mlp_only_layers", Json::array()}});
  }
  WriteFolder(folder, config, tensors);
  return tensors;
}

TinyTensors WriteQwen2(const std::string& folder, const Shape& shape,
                       uint64_t seed) {
  WeightSource source(seed);
  TinyTensors tensors;
  tensors["model.embed_tokens.weight"] =
      source.Draw({kTinyVocab, shape.hidden}, 0.3f);
  DrawLlamaLayers(shape, source, tensors);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string attention =
        absl::StrCat("model.layers.", i, ".self_attn.");
    const int64_t kv = shape.kv_heads * shape.head_dim;
    tensors[attention + "q_proj.bias"] =
        source.Bias(shape.heads * shape.head_dim);
    tensors[attention + "k_proj.bias"] = source.Bias(kv);
    tensors[attention + "v_proj.bias"] = source.Bias(kv);
  }
  tensors["model.norm.weight"] = source.Scale(shape.hidden);
  Json config = LlamaConfig(shape);
  config.update({{"architectures", {"Qwen2ForCausalLM"}},
                 {"model_type", "qwen2"},
                 {"use_sliding_window", false},
                 {"tie_word_embeddings", true}});
  WriteFolder(folder, config, tensors);
  return tensors;
}

}  // namespace

TinyTensors WriteTinyLlama(const std::string& folder, uint64_t seed) {
  return WriteLlama(folder, kTiny, seed);
}
TinyTensors WriteTinyMistral(const std::string& folder, uint64_t seed) {
  return WriteLlama(folder, kTiny, seed + 1, MistralFields());
}
TinyTensors WriteWideMistral(const std::string& folder, uint64_t seed) {
  return WriteLlama(folder, kWide, seed, MistralFields());
}
TinyTensors WriteWideQwen3Moe(const std::string& folder, uint64_t seed) {
  return WriteQwen3(folder, kWideQwen3, seed, /*expert_ffn=*/64);
}
TinyTensors WriteTinyQwen3(const std::string& folder, uint64_t seed) {
  return WriteQwen3(folder, kTinyQwen3, seed);
}
TinyTensors WriteTinyQwen3Moe(const std::string& folder, uint64_t seed) {
  return WriteQwen3(folder, kTinyQwen3, seed, /*expert_ffn=*/32);
}
TinyTensors WriteTinyQwen2(const std::string& folder, uint64_t seed) {
  return WriteQwen2(folder, kTiny, seed);
}
TinyTensors WriteWideLlama(const std::string& folder, uint64_t seed) {
  return WriteLlama(folder, kWide, seed);
}
TinyTensors WriteWideQwen3(const std::string& folder, uint64_t seed) {
  return WriteQwen3(folder, kWideQwen3, seed);
}
TinyTensors WriteWideQwen2(const std::string& folder, uint64_t seed) {
  return WriteQwen2(folder, kWide, seed);
}

namespace {

// Draws what all Gemmas have: norms are stored less one, and have names of
// their own.
TinyTensors DrawGemma(const Shape& shape, bool head_norms, uint64_t seed) {
  WeightSource source(seed);
  TinyTensors tensors;
  // It is multiplied by 7 or 8, and is the head as well.
  tensors["model.embed_tokens.weight"] =
      source.Draw({kTinyVocab, shape.hidden}, 0.05f);
  DrawLlamaLayers(shape, source, tensors);
  if (head_norms) DrawHeadNorms(shape, source, tensors);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    for (const char* norm :
         {"pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      tensors[absl::StrCat(layer, norm, ".weight")] =
          source.Scale(shape.hidden);
    }
  }
  tensors["model.norm.weight"] = source.Scale(shape.hidden);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 1) continue;
    for (float& value : tensor.values) value = RoundToBf16(value - 1);
  }
  return tensors;
}

Json GemmaConfig(const Shape& shape) {
  Json config = LlamaConfig(shape);
  config.update({{"hidden_activation", "gelu_pytorch_tanh"},
                 {"query_pre_attn_scalar", shape.head_dim},
                 {"sliding_window", kTinyWindow},
                 {"tie_word_embeddings", true}});
  return config;
}

TinyTensors WriteGemma3(const std::string& folder, const Shape& shape,
                        uint64_t seed) {
  const TinyTensors tensors = DrawGemma(shape, /*head_norms=*/true, seed);
  Json config = GemmaConfig(shape);
  config.update({{"architectures", {"Gemma3ForCausalLM"}},
                 {"model_type", "gemma3_text"},
                 {"rope_theta", 1e6},
                 {"rope_local_base_freq", 1e4},
                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                 {"sliding_window_pattern", 2}});
  WriteFolder(folder, config, tensors);
  return tensors;
}

}  // namespace

TinyTensors WriteTinyGemma3(const std::string& folder, uint64_t seed) {
  return WriteGemma3(folder, kTinyQwen3, seed);
}
TinyTensors WriteTinyGemma2(const std::string& folder, uint64_t seed) {
  const TinyTensors tensors =
      DrawGemma(kTinyQwen3, /*head_norms=*/false, seed + 1);
  Json config = GemmaConfig(kTinyQwen3);
  config.update({{"architectures", {"Gemma2ForCausalLM"}},
                 {"model_type", "gemma2"},
                 {"attn_logit_softcapping", kTinyScoreSoftcap},
                 {"final_logit_softcapping", kTinyLogitSoftcap}});
  WriteFolder(folder, config, tensors);
  return tensors;
}
TinyTensors WriteWideGemma3(const std::string& folder, uint64_t seed) {
  return WriteGemma3(folder, kWideGemma3, seed);
}

TinyTensors WriteTinyGpt2(const std::string& folder, uint64_t seed) {
  WeightSource source(seed);
  TinyTensors tensors;
  auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    tensors[name + ".weight"] = source.Matrix(in, out, in, 2);
    tensors[name + ".bias"] = source.Bias(out);
  };
  auto norm = [&](const std::string& name) {
    tensors[name + ".weight"] = source.Scale(kHidden);
    tensors[name + ".bias"] = source.Bias(kHidden);
  };
  // The head is the embedding: a small one, or the last token would win.
  tensors["transformer.wte.weight"] = source.Draw({kTinyVocab, kHidden}, 0.5f);
  tensors["transformer.wpe.weight"] =
      source.Draw({kTinyMaxPositions, kHidden}, 0.5f);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = absl::StrCat("transformer.h.", i, ".");
    norm(layer + "ln_1");
    linear(layer + "attn.c_attn", kHidden, 3 * kHidden);
    linear(layer + "attn.c_proj", kHidden, kHidden);
    norm(layer + "ln_2");
    linear(layer + "mlp.c_fc", kHidden, 4 * kHidden);
    linear(layer + "mlp.c_proj", 4 * kHidden, kHidden);
  }
  norm("transformer.ln_f");
  WriteFolder(folder,
              {{"architectures", {"GPT2LMHeadModel"}},
               {"model_type", "gpt2"},
               {"n_layer", kLayers},
               {"n_embd", kHidden},
               {"n_head", kHeads},
               {"vocab_size", kTinyVocab},
               {"n_positions", kTinyMaxPositions},
               {"activation_function", "gelu_new"},
               {"layer_norm_epsilon", 1e-5},
               {"bos_token_id", kTinyImStart},
               {"eos_token_id", kTinyImEnd}},
              tensors);
  return tensors;
}

void WriteSafetensors(const std::string& path, const TinyTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    for (float value : tensor.values) {
      const uint16_t bits = ToBf16Bits(value);
      data.push_back(static_cast<char>(bits & 0xFF));
      data.push_back(static_cast<char>(bits >> 8));
    }
    for (int64_t value : tensor.integers) {
      for (int byte = 0; byte < 8; ++byte) {
        data.push_back(static_cast<char>(value >> (8 * byte) & 0xFF));
      }
    }
    header[name] = {{"dtype", tensor.integers.empty() ? "BF16" : "I64"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int byte = 0; byte < 8; ++byte) {
    length.push_back(static_cast<char>(text.size() >> (8 * byte) & 0xFF));
  }
  WriteText(path, absl::StrCat(length, text, data));
}

}  // namespace espalier::testing
