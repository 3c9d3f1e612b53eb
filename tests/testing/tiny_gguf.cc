#include "tests/testing/tiny_gguf.h"

#include <bit>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"

namespace espalier::testing {
namespace {

constexpr uint32_t kF32 = 0, kBf16 = 30;

bool IsGemma(const std::string& architecture) {
  return architecture == "gemma2" || architecture == "gemma3";
}

std::string GgufName(const std::string& architecture, const std::string& name) {
  const std::map<std::string, std::string> tops = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"}};
  if (auto top = tops.find(name); top != tops.end()) return top->second;
  if (IsGemma(architecture)) {
    const std::string norm = absl::StrReplaceAll(
        name, {{"model.layers.", "blk."},
               {"post_attention_layernorm", "post_attention_norm"},
               {"pre_feedforward_layernorm", "ffn_norm"},
               {"post_feedforward_layernorm", "post_ffw_norm"}});
    if (absl::StrContains(name, "post_") || absl::StrContains(name, "pre_")) {
      return norm;
    }
  }
  return absl::StrReplaceAll(name, {{"model.layers.", "blk."},
                                    {"mlp.gate.", "ffn_gate_inp."},
                                    {"mlp.experts.gate_proj", "ffn_gate_exps"},
                                    {"mlp.experts.up_proj", "ffn_up_exps"},
                                    {"mlp.experts.down_proj", "ffn_down_exps"},
                                    {"input_layernorm", "attn_norm"},
                                    {"self_attn.q_proj", "attn_q"},
                                    {"self_attn.k_proj", "attn_k"},
                                    {"self_attn.v_proj", "attn_v"},
                                    {"self_attn.o_proj", "attn_output"},
                                    {"self_attn.q_norm", "attn_q_norm"},
                                    {"self_attn.k_norm", "attn_k_norm"},
                                    {"post_attention_layernorm", "ffn_norm"},
                                    {"mlp.gate_proj", "ffn_gate"},
                                    {"mlp.up_proj", "ffn_up"},
                                    {"mlp.down_proj", "ffn_down"}});
}

// Row i of each head's first half, then row i of its second half.
TinyTensor Interleaved(const TinyTensor& tensor, int64_t heads) {
  TinyTensor out = tensor;
  const int64_t rows = tensor.shape[0], size = rows / heads;
  const int64_t columns = tensor.shape.size() == 1 ? 1 : tensor.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / size, half = row % size / (size / 2);
    const int64_t place = head * size + row % (size / 2) * 2 + half;
    std::copy_n(tensor.values.begin() + row * columns, columns,
                out.values.begin() + place * columns);
  }
  return out;
}

// Joins the experts' tensors: "mlp.experts.0.up_proj" and others become
// "mlp.experts.up_proj".
TinyTensors Stacked(const TinyTensors& tensors) {
  TinyTensors stacked;
  for (const auto& [name, tensor] : tensors) {
    const size_t experts = name.find(".experts.");
    if (experts == std::string::npos) {
      stacked[name] = tensor;
      continue;
    }
    const size_t number = experts + 9, end = name.find('.', number);
    TinyTensor& all = stacked[name.substr(0, number) + name.substr(end + 1)];
    if (all.shape.empty()) all.shape = {0, tensor.shape[0], tensor.shape[1]};
    ++all.shape[0];
    all.values.insert(all.values.end(), tensor.values.begin(),
                      tensor.values.end());
  }
  return stacked;
}

void AddMetadataOf(const std::string& architecture, const TinyTensors& tensors,
                   std::vector<std::string>& pairs) {
  const auto number = [&](const char* key, uint32_t value) {
    pairs.push_back(
        Pair(absl::StrCat(architecture, ".", key), kUint32, Raw(value)));
  };
  if (architecture == "qwen3moe") {
    const auto& router = tensors.at("model.layers.0.mlp.gate.weight");
    const auto& up = tensors.at("model.layers.0.mlp.experts.0.up_proj.weight");
    number("expert_count", static_cast<uint32_t>(router.shape[0]));
    number("expert_used_count", 2);
    number("expert_feed_forward_length", static_cast<uint32_t>(up.shape[0]));
    number("feed_forward_length", 96);
    return;
  }
  const auto& up = tensors.at("model.layers.0.mlp.up_proj.weight");
  number("feed_forward_length", static_cast<uint32_t>(up.shape[0]));
  if (!IsGemma(architecture)) return;
  number("attention.sliding_window", kTinyWindow);
  if (architecture == "gemma2") {
    for (const auto& [key, cap] :
         {std::pair("attn_logit_softcapping", kTinyScoreSoftcap),
          std::pair("final_logit_softcapping", kTinyLogitSoftcap)}) {
      pairs.push_back(Pair(absl::StrCat("gemma2.", key), kFloat32,
                           Raw(static_cast<float>(cap))));
    }
    return;
  }
  number("attention.sliding_window_pattern", 2);
  pairs.push_back(Pair("gemma3.rope.scaling.type", kString, Str("linear")));
  pairs.push_back(Pair("gemma3.rope.scaling.factor", kFloat32, Raw(8.0f)));
}

std::string Values(const TinyTensor& tensor, float offset) {
  std::string bytes;
  for (float value : tensor.values) {
    if (tensor.shape.size() == 1) {
      bytes += Raw(value + offset);
    } else {
      bytes += Raw<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    }
  }
  return bytes;
}

std::string CharacterOf(int code_point) {  // below 0x800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::string ByteToken(int byte) {
  int unprintable = 0;
  for (int other = 0; other <= byte; ++other) {
    const bool printable = (other >= 33 && other <= 126) ||
                           (other >= 161 && other <= 172) || other >= 174;
    if (other == byte) return CharacterOf(printable ? byte : 256 + unprintable);
    unprintable += printable ? 0 : 1;
  }
  ESPALIER_CHECK(false);
}

}  // namespace

std::vector<std::string> TinyTokenizerPairs(const std::string& pre) {
  std::string tokens, types;
  for (int byte = 0; byte < 256; ++byte) {
    tokens += Str(ByteToken(byte));
    types += Raw<int32_t>(1);
  }
  tokens += Str("<|im_start|>") + Str("<|im_end|>");
  types += Raw<int32_t>(3) + Raw<int32_t>(3);
  const auto count = static_cast<uint64_t>(kTinyVocab);
  return {
      Pair("tokenizer.ggml.model", kString, Str("gpt2")),
      Pair("tokenizer.ggml.pre", kString, Str(pre)),
      Pair("tokenizer.ggml.tokens", kArray, Array(kString, count, tokens)),
      Pair("tokenizer.ggml.token_type", kArray, Array(kInt32, count, types)),
      Pair("tokenizer.ggml.merges", kArray, Array(kString, 0, "")),
      Pair("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(kTinyImEnd))};
}

GgufBytes TinyGguf(const std::string& architecture,
                   const TinyTensors& tensors) {
  const auto size = [&](const char* name, int dim) {
    return static_cast<uint32_t>(tensors.at(name).shape[dim]);
  };
  const uint32_t head_dim =
      size("model.layers.0.self_attn.q_proj.weight", 0) / kTinyHeads;
  GgufBytes file;
  const auto number = [&](const char* key, uint32_t value) {
    file.pairs.push_back(
        Pair(absl::StrCat(architecture, ".", key), kUint32, Raw(value)));
  };
  file.pairs.push_back(
      Pair("general.architecture", kString, Str(architecture)));
  number("block_count", 2);
  number("embedding_length", size("model.embed_tokens.weight", 1));
  AddMetadataOf(architecture, tensors, file.pairs);
  number("attention.head_count", kTinyHeads);
  number("attention.head_count_kv", kTinyKvHeads);
  number("attention.key_length", head_dim);
  number("attention.value_length", head_dim);
  number("rope.dimension_count", head_dim);
  number("context_length", kTinyMaxPositions);
  file.pairs.push_back(Pair(architecture + ".attention.layer_norm_rms_epsilon",
                            kFloat32, Raw(1e-5f)));
  file.pairs.push_back(
      Pair(architecture + ".rope.freq_base", kFloat32,
           Raw(architecture == "llama" || architecture == "qwen2" ||
                       architecture == "gemma2"
                   ? 10000.0f
                   : 1e6f)));
  for (const std::string& pair : TinyTokenizerPairs("gpt-2")) {
    file.pairs.push_back(pair);
  }
  // llama.cpp adds the one that Gemma's folders leave out.
  const float offset = IsGemma(architecture) ? 1 : 0;
  for (const auto& [name, tensor] : Stacked(tensors)) {
    const bool is_q = absl::StrContains(name, "q_proj");
    const bool rotates =
        architecture == "llama" && (is_q || absl::StrContains(name, "k_proj"));
    const TinyTensor stored =
        rotates ? Interleaved(tensor, is_q ? kTinyHeads : kTinyKvHeads)
                : tensor;
    file.Add(GgufName(architecture, name),
             {tensor.shape.rbegin(), tensor.shape.rend()},
             tensor.shape.size() == 1 ? kF32 : kBf16, Values(stored, offset));
  }
  return file;
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.flush();
  ESPALIER_CHECK(file.good());
}

}  // namespace espalier::testing
