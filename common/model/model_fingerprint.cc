#include "common/model/model_fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/bf16.h"
#include "common/model/files/layer_features.h"
#include "common/model/files/tensor_values.h"

namespace espalier {
namespace {

constexpr int64_t kSampleValues = 1024;
constexpr int64_t kSamples = 16;  // of a tensor

// FNV-1a, 64 bit.
class ModelHasher {
 public:
  void AddBytes(absl::Span<const std::byte> bytes) {
    for (std::byte byte : bytes) {
      hash_ = (hash_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
  }
  void AddNumber(uint64_t number) {
    AddBytes(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&number),
                                 sizeof(number)));
  }
  void AddText(std::string_view text) {
    AddNumber(text.size());
    AddBytes(absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(text.data()), text.size()));
  }
  // 0 means that nothing is known.
  uint64_t hash() const { return std::max<uint64_t>(1, hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

void AddTable(const ModelConfig& config, int32_t table, ModelHasher& hasher) {
  for (double frequency : RotaryFrequencies(config, table)) {
    hasher.AddNumber(std::bit_cast<uint64_t>(frequency));
  }
  if (RotaryScale(config, table) != 1) {
    hasher.AddNumber(std::bit_cast<uint64_t>(RotaryScale(config, table)));
  }
}

// GPT-2 does not rotate, but is known by the table of a Llama that does.
void AddFirstTable(const ModelConfig& config, ModelHasher& hasher) {
  ModelConfig plain = config;
  if (plain.rotary.empty()) plain.rotary = {RotaryTable()};
  AddTable(plain, 0, hasher);
}

// All of a layer, for models of which more is told than of the first layer.
void AddLayer(const LayerShape& layer, ModelHasher& hasher) {
  const ExpertsShape& experts = layer.experts;
  for (int64_t number : {layer.window, static_cast<int64_t>(layer.rotary),
                         static_cast<int64_t>(layer.head_norm),
                         static_cast<int64_t>(layer.norms_before),
                         static_cast<int64_t>(layer.norms_after),
                         static_cast<int64_t>(layer.attention_bias),
                         static_cast<int64_t>(layer.attention_out_bias),
                         static_cast<int64_t>(layer.mlp_bias),
                         static_cast<int64_t>(layer.activation), layer.ffn_size,
                         experts.count, experts.per_row, experts.ffn_size,
                         static_cast<int64_t>(experts.weights_sum_to_one)}) {
    hasher.AddNumber(static_cast<uint64_t>(number));
  }
  hasher.AddNumber(std::bit_cast<uint64_t>(layer.query_scalar));
  if (layer.score_softcap > 0) {
    hasher.AddNumber(std::bit_cast<uint64_t>(layer.score_softcap));
  }
}

// The first layer and the layers that do not rotate tell all of most models.
// Others are known by every layer as well.
void AddConfig(const ModelConfig& config, ModelHasher& hasher) {
  const LayerShape& first = config.layers.front();
  for (int64_t size :
       {static_cast<int64_t>(config.kind), config.num_layers,
        config.hidden_size, config.num_heads, config.num_kv_heads,
        config.head_dim, first.ffn_size, config.vocab_size,
        static_cast<int64_t>(first.activation)}) {
    hasher.AddNumber(static_cast<uint64_t>(size));
  }
  for (bool flag :
       {first.head_norm != HeadNorm::kNone, first.attention_bias,
        first.attention_out_bias, first.mlp_bias, config.tied_head}) {
    hasher.AddNumber(flag);
  }
  // A GGUF file has float32, and models compute with it.
  hasher.AddNumber(
      std::bit_cast<uint32_t>(static_cast<float>(config.norm_epsilon)));
  AddFirstTable(config, hasher);
  std::vector<LayerFeature> features = FeaturesOf(config);
  if (std::erase(features, LayerFeature::kUnrotatedLayers) > 0 &&
      config.kind == DecoderKind::kLlama) {
    for (const LayerShape& layer : config.layers) {
      hasher.AddNumber(!layer.rotates());
    }
  }
  if (features.empty()) return;
  hasher.AddNumber(std::bit_cast<uint64_t>(config.embedding_scale));
  if (config.logit_softcap > 0) {
    hasher.AddNumber(std::bit_cast<uint64_t>(config.logit_softcap));
  }
  for (int32_t i = 1; i < std::ssize(config.rotary); ++i) {
    AddTable(config, i, hasher);
  }
  for (const LayerShape& layer : config.layers) AddLayer(layer, hasher);
}

bool IsInteger(ComputeDType type) {
  return type == ComputeDType::kInt8 || type == ComputeDType::kInt4;
}

// Values as the model computes with them.
void AddValues(absl::Span<float> values, bool rounded, ModelHasher& hasher) {
  if (rounded) {
    for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
  }
  hasher.AddBytes(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                          values.size() * sizeof(float)));
}

// All of a small tensor; of others parts of evenly spaced rows, the last one
// among them.
void AddSamples(const TensorValues& values, bool rounded, ModelHasher& hasher) {
  const int64_t rows = values.rows(), columns = values.columns();
  if (rows == 0 || columns == 0) return;
  const bool all = rows * columns <= kSamples * kSampleValues;
  const int64_t samples = all ? rows : kSamples;
  const int64_t width = all ? columns : std::min(columns, kSampleValues);
  std::vector<float> row(columns);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t last = std::max<int64_t>(1, samples - 1);
    values.Row((rows - 1) * i / last, row.data());
    const int64_t begin = (columns - width) * i / last;
    AddValues(absl::MakeSpan(row).subspan(begin, width), rounded, hasher);
  }
}

void AddTensor(const std::string& name, const TensorView& tensor,
               ComputeDType compute_type, ModelHasher& hasher) {
  hasher.AddText(name);
  hasher.AddNumber(tensor.shape.size());
  for (int64_t size : tensor.shape) hasher.AddNumber(size);
  const absl::StatusOr<TensorValues> values = TensorValues::Of(name, tensor);
  if (!values.ok()) return;  // no weights: no part of what is computed
  if (IsInteger(compute_type) && nn::UnitInputs(values->format()) > 1) {
    hasher.AddText(DTypeName(tensor.dtype));
  }
  // Vectors stay as they are: norms and biases.
  const bool rounded = (compute_type == ComputeDType::kBFloat16 ||
                        compute_type == ComputeDType::kFp8) &&
                       tensor.shape.size() > 1;
  AddSamples(*values, rounded, hasher);
}

// Returns the layer of a tensor's name: 7 for "model.layers.7.mlp.weight" and
// "h.7.mlp.weight"; -1: the tensor is of no layer.
int64_t LayerOf(const ModelConfig& config, absl::string_view name) {
  const bool is_gpt2 = config.kind == DecoderKind::kGpt2;
  if (is_gpt2) absl::ConsumePrefix(&name, "transformer.");
  if (!absl::ConsumePrefix(&name, is_gpt2 ? "h." : "model.layers.")) return -1;
  int64_t layer = -1;
  if (!absl::SimpleAtoi(name.substr(0, name.find('.')), &layer)) return -1;
  return layer;
}

}  // namespace

uint64_t ModelFingerprint(const ModelConfig& config, const WeightFiles& files,
                          ComputeDType compute_type, nn::KvType kv_type,
                          uint64_t kernels) {
  ModelHasher hasher;
  if (kernels != 0) hasher.AddNumber(kernels);
  hasher.AddText(NameOf(compute_type));
  if (kv_type != DefaultKvType(compute_type)) hasher.AddText(NameOf(kv_type));
  AddConfig(config, hasher);
  for (const auto& [name, tensor] : files.tensors()) {
    AddTensor(name, tensor, compute_type, hasher);
  }
  return hasher.hash();
}

absl::Status CheckLayerCount(const ModelConfig& config,
                             const WeightFiles& files) {
  for (const auto& [name, tensor] : files.tensors()) {
    if (LayerOf(config, name) < config.num_layers) continue;
    const bool is_gpt2 = config.kind == DecoderKind::kGpt2;
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ", is_gpt2 ? "n_layer" : "num_hidden_layers", " is ",
        config.num_layers, ", but the weights have more layers: ", name));
  }
  return absl::OkStatus();
}

}  // namespace espalier
