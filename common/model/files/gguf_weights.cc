#include "common/model/files/gguf_weights.h"

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_config.h"

namespace espalier {
namespace {

// A tensor of every layer, if the model has it.
struct LayerTensor {
  const char* gguf_name;                 // after "blk.<layer>."
  const char* name;                      // after "model.layers.<layer>."
  bool ModelConfig::*part_of = nullptr;  // null: of every model
};
constexpr LayerTensor kLayerTensors[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias", &ModelConfig::attention_bias},
    {"attn_k.bias", "self_attn.k_proj.bias", &ModelConfig::attention_bias},
    {"attn_v.bias", "self_attn.v_proj.bias", &ModelConfig::attention_bias},
    {"attn_output.bias", "self_attn.o_proj.bias",
     &ModelConfig::attention_out_bias},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", &ModelConfig::qk_norm},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", &ModelConfig::qk_norm},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias", &ModelConfig::mlp_bias},
    {"ffn_up.bias", "mlp.up_proj.bias", &ModelConfig::mlp_bias},
    {"ffn_down.bias", "mlp.down_proj.bias", &ModelConfig::mlp_bias},
};

DType DTypeOf(GgufTensorType type) {
  switch (type) {
    case GgufTensorType::kF32:
      return DType::kF32;
    case GgufTensorType::kF16:
      return DType::kF16;
    case GgufTensorType::kBF16:
      return DType::kBF16;
    case GgufTensorType::kQ8_0:
      return DType::kQ8_0;
    case GgufTensorType::kQ4_0:
      return DType::kQ4_0;
    case GgufTensorType::kQ4_1:
      return DType::kQ4_1;
    case GgufTensorType::kQ5_0:
      return DType::kQ5_0;
    case GgufTensorType::kQ5_1:
      return DType::kQ5_1;
    case GgufTensorType::kQ4_K:
      return DType::kQ4_K;
    case GgufTensorType::kQ5_K:
      return DType::kQ5_K;
    case GgufTensorType::kQ6_K:
      return DType::kQ6_K;
  }
  ESPALIER_CHECK(false);
}

// Returns the heads of a tensor that llama.cpp interleaves for its Llama; 0: of
// others.
int64_t InterleavedHeads(absl::string_view layer_name,
                         const ModelConfig& config) {
  if (absl::ConsumePrefix(&layer_name, "attn_q.")) return config.num_heads;
  if (absl::ConsumePrefix(&layer_name, "attn_k.")) return config.num_kv_heads;
  return 0;
}

struct Renamed {
  std::string name;  // empty: not a weight of the layers
  int64_t interleaved_heads = 0;
};

absl::Status NotPartOf(std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", absl::CHexEscape(std::string(name)),
      " is not part of the architecture that the metadata describes"));
}

absl::StatusOr<Renamed> Rename(std::string_view whole,
                               const ModelConfig& config, bool interleaved) {
  if (whole == kTokenTensor) return Renamed{"model.embed_tokens.weight"};
  if (whole == kOutputTensor) return Renamed{"lm_head.weight"};
  if (whole == "output_norm.weight") return Renamed{"model.norm.weight"};
  if (whole == kRopeFactorsTensor) return Renamed{};
  absl::string_view rest(whole.data(), whole.size());
  if (!absl::ConsumePrefix(&rest, "blk.")) return NotPartOf(whole);
  const size_t dot = rest.find('.');
  int64_t layer = -1;
  if (dot == absl::string_view::npos ||
      !absl::SimpleAtoi(rest.substr(0, dot), &layer) || layer < 0 ||
      absl::StrCat(layer) != rest.substr(0, dot)) {
    return NotPartOf(whole);
  }
  rest.remove_prefix(dot + 1);
  for (const LayerTensor& tensor : kLayerTensors) {
    if (rest != tensor.gguf_name) continue;
    if (tensor.part_of != nullptr && !(config.*tensor.part_of)) break;
    return Renamed{absl::StrCat("model.layers.", layer, ".", tensor.name),
                   interleaved ? InterleavedHeads(rest, config) : 0};
  }
  return NotPartOf(whole);
}

// Heads of whole pairs, or the order of the rows means nothing.
absl::Status CheckHeads(std::string_view name, const TensorView& view) {
  const int64_t heads = view.interleaved_heads;
  if (heads == 0 || (!view.shape.empty() && view.shape[0] % (2 * heads) == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor ", std::string(name),
                                                 " has no rows for ", heads,
                                                 " heads of an even size"));
}

}  // namespace

absl::StatusOr<std::map<std::string, TensorView>> ReadGgufWeights(
    const GgufFile& file, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool interleaved, HasInterleavedHeads(file));
  std::map<std::string, TensorView> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    absl::StatusOr<Renamed> renamed = Rename(name, config, interleaved);
    if (!renamed.ok()) return file.Error(renamed.status());
    if (renamed->name.empty()) continue;
    TensorView view = {.dtype = DTypeOf(tensor.type),
                       .shape = {tensor.dims.rbegin(), tensor.dims.rend()},
                       .data = tensor.data,
                       .interleaved_heads = renamed->interleaved_heads};
    if (const absl::Status heads = CheckHeads(name, view); !heads.ok()) {
      return file.Error(heads);
    }
    tensors.emplace(std::move(renamed->name), std::move(view));
  }
  return tensors;
}

}  // namespace espalier
