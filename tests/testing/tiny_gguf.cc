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

std::string GgufName(const std::string& name) {
  const std::map<std::string, std::string> tops = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"}};
  if (auto top = tops.find(name); top != tops.end()) return top->second;
  return absl::StrReplaceAll(name, {{"model.layers.", "blk."},
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

std::string Values(const TinyTensor& tensor) {
  std::string bytes;
  for (float value : tensor.values) {
    if (tensor.shape.size() == 1) {
      bytes += Raw(value);
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
  number("feed_forward_length", size("model.layers.0.mlp.up_proj.weight", 0));
  number("attention.head_count", kTinyHeads);
  number("attention.head_count_kv", kTinyKvHeads);
  number("attention.key_length", head_dim);
  number("attention.value_length", head_dim);
  number("rope.dimension_count", head_dim);
  number("context_length", kTinyMaxPositions);
  file.pairs.push_back(Pair(architecture + ".attention.layer_norm_rms_epsilon",
                            kFloat32, Raw(1e-5f)));
  file.pairs.push_back(Pair(architecture + ".rope.freq_base", kFloat32,
                            Raw(architecture == "qwen3" ? 1e6f : 10000.0f)));
  for (const std::string& pair : TinyTokenizerPairs("gpt-2")) {
    file.pairs.push_back(pair);
  }
  for (const auto& [name, tensor] : tensors) {
    const bool is_q = absl::StrContains(name, "q_proj");
    const bool rotates =
        architecture == "llama" && (is_q || absl::StrContains(name, "k_proj"));
    const TinyTensor stored =
        rotates ? Interleaved(tensor, is_q ? kTinyHeads : kTinyKvHeads)
                : tensor;
    file.Add(GgufName(name), {tensor.shape.rbegin(), tensor.shape.rend()},
             tensor.shape.size() == 1 ? kF32 : kBf16, Values(stored));
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
