#include "common/model/model_fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace espalier {
namespace {

constexpr size_t kSampleBytes = 4096;
constexpr size_t kSamples = 16;  // of a tensor

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

void AddConfig(const ModelConfig& config, ModelHasher& hasher) {
  for (int64_t size :
       {static_cast<int64_t>(config.architecture), config.num_layers,
        config.hidden_size, config.num_heads, config.num_kv_heads,
        config.head_dim, config.ffn_size, config.vocab_size,
        static_cast<int64_t>(config.activation)}) {
    hasher.AddNumber(static_cast<uint64_t>(size));
  }
  for (bool flag : {config.qk_norm, config.attention_bias, config.mlp_bias,
                    config.tied_head}) {
    hasher.AddNumber(flag);
  }
  hasher.AddNumber(std::bit_cast<uint64_t>(config.norm_epsilon));
  for (double frequency : RotaryFrequencies(config)) {
    hasher.AddNumber(std::bit_cast<uint64_t>(frequency));
  }
}

// Evenly spaced samples that include the last bytes; all of a small tensor.
void AddSamples(absl::Span<const std::byte> data, ModelHasher& hasher) {
  if (data.size() <= kSamples * kSampleBytes) {
    hasher.AddBytes(data);
    return;
  }
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t begin = (data.size() - kSampleBytes) / (kSamples - 1) * i;
    hasher.AddBytes(data.subspan(begin, kSampleBytes));
  }
  hasher.AddBytes(data.last(kSampleBytes));
}

// Of "model.layers.7.mlp.weight" or "h.7.mlp.weight" 7; -1: of no layer.
int64_t LayerOf(const ModelConfig& config, absl::string_view name) {
  const bool is_gpt2 = config.architecture == Architecture::kGpt2;
  if (is_gpt2) absl::ConsumePrefix(&name, "transformer.");
  if (!absl::ConsumePrefix(&name, is_gpt2 ? "h." : "model.layers.")) return -1;
  int64_t layer = -1;
  if (!absl::SimpleAtoi(name.substr(0, name.find('.')), &layer)) return -1;
  return layer;
}

}  // namespace

uint64_t ModelFingerprint(const ModelConfig& config, const WeightFiles& files,
                          std::string_view compute_type) {
  ModelHasher hasher;
  hasher.AddText(compute_type);
  AddConfig(config, hasher);
  for (const auto& [name, tensor] : files.tensors()) {
    hasher.AddText(name);
    hasher.AddText(DTypeName(tensor.dtype));
    hasher.AddNumber(tensor.shape.size());
    for (int64_t size : tensor.shape) hasher.AddNumber(size);
    AddSamples(tensor.data, hasher);
  }
  return hasher.hash();
}

absl::Status CheckLayerCount(const ModelConfig& config,
                             const WeightFiles& files) {
  for (const auto& [name, tensor] : files.tensors()) {
    if (LayerOf(config, name) < config.num_layers) continue;
    const bool is_gpt2 = config.architecture == Architecture::kGpt2;
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ", is_gpt2 ? "n_layer" : "num_hidden_layers", " is ",
        config.num_layers, ", but the weights have more layers: ", name));
  }
  return absl::OkStatus();
}

}  // namespace espalier
