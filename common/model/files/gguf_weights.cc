#include "common/model/files/gguf_weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/tensor_names.h"

namespace espalier {
namespace {

bool HasHeadNorm(const LayerShape& layer) {
  return layer.head_norm != HeadNorm::kNone;
}
bool HasNormsBefore(const LayerShape& layer) { return layer.norms_before; }
bool HasNormsAfter(const LayerShape& layer) { return layer.norms_after; }
bool HasAttentionBias(const LayerShape& layer) { return layer.attention_bias; }
bool HasOutBias(const LayerShape& layer) { return layer.attention_out_bias; }
bool IsDense(const LayerShape& layer) { return layer.is_dense(); }
bool HasExperts(const LayerShape& layer) { return !layer.is_dense(); }
bool HasMlpBias(const LayerShape& layer) {
  return layer.is_dense() && layer.mlp_bias;
}

// llama.cpp gives a name one meaning in all architectures.
constexpr TensorName kGgufTensors[] = {
    {"attn_norm.weight", "input_layernorm.weight", HasNormsBefore},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias", HasAttentionBias},
    {"attn_k.bias", "self_attn.k_proj.bias", HasAttentionBias},
    {"attn_v.bias", "self_attn.v_proj.bias", HasAttentionBias},
    {"attn_output.bias", "self_attn.o_proj.bias", HasOutBias},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", HasHeadNorm},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", HasHeadNorm},
    {"post_attention_norm.weight", "attention_output_norm.weight",
     HasNormsAfter},
    {"ffn_norm.weight", "post_attention_layernorm.weight", HasNormsBefore},
    {"ffn_gate.weight", "mlp.gate_proj.weight", IsDense},
    {"ffn_up.weight", "mlp.up_proj.weight", IsDense},
    {"ffn_down.weight", "mlp.down_proj.weight", IsDense},
    {"ffn_gate.bias", "mlp.gate_proj.bias", HasMlpBias},
    {"ffn_up.bias", "mlp.up_proj.bias", HasMlpBias},
    {"ffn_down.bias", "mlp.down_proj.bias", HasMlpBias},
    {"ffn_gate_inp.weight", "mlp.gate.weight", HasExperts},
    {"ffn_gate_exps.weight", "mlp.experts.*.gate_proj.weight", HasExperts},
    {"ffn_up_exps.weight", "mlp.experts.*.up_proj.weight", HasExperts},
    {"ffn_down_exps.weight", "mlp.experts.*.down_proj.weight", HasExperts},
    {"post_ffw_norm.weight", "ffn_output_norm.weight", HasNormsAfter},
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

// Returns whether the model has such a tensor. A file may have more layers than
// its metadata says; CheckLayerCount refuses that.
bool IsPartOf(const TensorName& tensor, int64_t layer,
              const ModelConfig& config) {
  if (tensor.part_of == nullptr) return true;
  const int64_t known = std::min(layer, config.num_layers - 1);
  return tensor.part_of(config.layers[known]);
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
  for (const TensorName& tensor : kGgufTensors) {
    if (rest != tensor.file) continue;
    if (!IsPartOf(tensor, layer, config)) break;
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

// Adds the tensor, or each expert's part of a stack of them.
void AddUnstacked(const std::string& name, const TensorView& view,
                  std::map<std::string, TensorView>& tensors) {
  const size_t star = name.find('*');
  if (star == std::string::npos || view.shape.size() != 3) {
    tensors.emplace(name, view);
    return;
  }
  const int64_t experts = view.shape[0];
  const size_t bytes = view.data.size() / experts;
  for (int64_t expert = 0; expert < experts; ++expert) {
    TensorView part = view;
    part.shape.erase(part.shape.begin());
    part.data = view.data.subspan(expert * bytes, bytes);
    tensors.emplace(
        absl::StrCat(name.substr(0, star), expert, name.substr(star + 1)),
        std::move(part));
  }
}

}  // namespace

absl::StatusOr<std::map<std::string, TensorView>> ReadGgufWeights(
    const GgufFile& file, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const Architecture* architecture, GgufArchitecture(file));
  const bool interleaved = architecture->gguf_interleaves_heads;
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
    AddUnstacked(renamed->name, view, tensors);
  }
  return tensors;
}

}  // namespace espalier
