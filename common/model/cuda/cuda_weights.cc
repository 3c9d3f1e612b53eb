#include "common/model/cuda/cuda_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/files/tensor_values.h"

namespace espalier {
namespace {

using cuda::ComputeDevice;
using cuda::DeviceArray;
using cuda::kStripOutputs;

// A row of some tensor; null: zeros.
struct WeightRow {
  const TensorValues* values = nullptr;
  int64_t row = 0;
};

class Loader {
 public:
  Loader(const WeightFiles& files, ComputeDevice& device)
      : files_(files), device_(device) {}

  absl::StatusOr<TensorValues> Find(const std::string& name,
                                    const std::vector<int64_t>& shape) const {
    ASSIGN_OR_RETURN(const TensorView view, files_.Find(name, shape));
    return TensorValues::Of(name, view);
  }

  absl::StatusOr<DeviceArray<float>> Upload(const std::vector<float>& values) {
    ASSIGN_OR_RETURN(
        DeviceArray<float> array,
        DeviceArray<float>::Make(device_, static_cast<int64_t>(values.size())));
    array.Write(0, values);
    RETURN_IF_ERROR(device_.Wait(device_.Record()));
    bytes_ += array.size() * static_cast<int64_t>(sizeof(float));
    return array;
  }

  // Tensors of one dimension, one after another.
  struct Part {
    std::string name;
    int64_t size = 0;
  };
  absl::StatusOr<DeviceArray<float>> Vectors(const std::vector<Part>& parts) {
    std::vector<float> values;
    for (const Part& part : parts) {
      ASSIGN_OR_RETURN(const TensorValues vector, Find(part.name, {part.size}));
      values.resize(values.size() + part.size);
      vector.Row(0, values.data() + values.size() - part.size);
    }
    return Upload(values);
  }

  // Strip by strip, in pieces of some megabytes.
  absl::StatusOr<CudaLinear> Pack(
      int64_t outputs, int64_t inputs,
      const std::function<WeightRow(int64_t output)>& row_of) {
    const int64_t strips = (outputs + kStripOutputs - 1) / kStripOutputs;
    const int64_t strip_bytes = kStripOutputs * inputs * 2;
    const int64_t at_once = std::max<int64_t>(1, (8 << 20) / strip_bytes);
    CudaLinear linear = {.inputs = static_cast<int>(inputs),
                         .outputs = static_cast<int>(strips * kStripOutputs)};
    ASSIGN_OR_RETURN(linear.weights, DeviceArray<unsigned char>::Make(
                                         device_, strips * strip_bytes));
    std::vector<unsigned char> packed;
    for (int64_t strip = 0; strip < strips; strip += at_once) {
      const int64_t count = std::min(at_once, strips - strip);
      packed.assign(count * strip_bytes, 0);
      for (int64_t i = 0; i < count * kStripOutputs; ++i) {
        const int64_t output = strip * kStripOutputs + i;
        if (output >= outputs) break;
        PackRow(row_of(output), i, packed);
      }
      linear.weights.Write(strip * strip_bytes, packed);
      RETURN_IF_ERROR(device_.Wait(device_.Record()));
    }
    bytes_ += linear.weights.size();
    return linear;
  }

  int64_t bytes() const { return bytes_; }

 private:
  static std::vector<uint16_t> Bf16Row(const TensorValues& values,
                                       int64_t row) {
    std::vector<uint16_t> rounded(values.columns());
    if (values.format() == TensorValues::Format::kBf16) {
      std::memcpy(rounded.data(), values.Bytes(row).data(),
                  rounded.size() * sizeof(uint16_t));
      return rounded;
    }
    std::vector<float> wide(values.columns());
    values.Row(row, wide.data());
    std::transform(wide.begin(), wide.end(), rounded.begin(), FloatToBf16);
    return rounded;
  }

  // In pieces of 8 numbers, which a tile keeps together.
  static void PackRow(const WeightRow& row, int64_t output,
                      std::vector<unsigned char>& packed) {
    const std::vector<uint16_t> weights = Bf16Row(*row.values, row.row);
    for (size_t i = 0; i < weights.size(); i += 8) {
      std::memcpy(&packed[cuda::WeightPlace(
                      static_cast<uint32_t>(weights.size()),
                      static_cast<uint32_t>(output), static_cast<uint32_t>(i))],
                  &weights[i], 8 * sizeof(uint16_t));
    }
  }

  const WeightFiles& files_;
  ComputeDevice& device_;
  int64_t bytes_ = 0;
};

// Products whose outputs come one after another.
absl::StatusOr<CudaLinear> LoadLinear(Loader& loader,
                                      const std::vector<Loader::Part>& parts,
                                      int64_t inputs, bool has_bias) {
  std::vector<TensorValues> tensors;
  std::vector<Loader::Part> biases;
  std::vector<WeightRow> rows;
  tensors.reserve(parts.size());
  for (const Loader::Part& part : parts) {
    ASSIGN_OR_RETURN(const TensorValues values,
                     loader.Find(part.name + ".weight", {part.size, inputs}));
    tensors.push_back(values);
    biases.push_back({part.name + ".bias", part.size});
    for (int64_t i = 0; i < part.size; ++i)
      rows.push_back({&tensors.back(), i});
  }
  ASSIGN_OR_RETURN(CudaLinear linear,
                   loader.Pack(static_cast<int64_t>(rows.size()), inputs,
                               [&](int64_t output) { return rows[output]; }));
  if (has_bias) {
    ASSIGN_OR_RETURN(linear.bias, loader.Vectors(biases));
  }
  return linear;
}

absl::StatusOr<CudaLinear> LoadGateUp(Loader& loader, const std::string& mlp,
                                      int64_t ffn, int64_t hidden) {
  ASSIGN_OR_RETURN(const TensorValues gate,
                   loader.Find(mlp + "gate_proj.weight", {ffn, hidden}));
  ASSIGN_OR_RETURN(const TensorValues up,
                   loader.Find(mlp + "up_proj.weight", {ffn, hidden}));
  std::vector<WeightRow> rows(2 * ffn);
  for (int64_t i = 0; i < ffn; ++i) {
    rows[cuda::GatePlace(static_cast<uint32_t>(i))] = {&gate, i};
    rows[cuda::GatedValuePlace(static_cast<uint32_t>(i))] = {&up, i};
  }
  return loader.Pack(2 * ffn, hidden,
                     [&](int64_t output) { return rows[output]; });
}

absl::StatusOr<CudaLayer> LoadLayer(Loader& loader, const ModelConfig& config,
                                    const std::string& layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  CudaLayer loaded;
  ASSIGN_OR_RETURN(
      loaded.attention_norm,
      loader.Vectors({{layer + "input_layernorm.weight", hidden}}));
  ASSIGN_OR_RETURN(
      loaded.ffn_norm,
      loader.Vectors({{layer + "post_attention_layernorm.weight", hidden}}));
  if (config.qk_norm) {
    ASSIGN_OR_RETURN(
        loaded.q_norm,
        loader.Vectors({{attention + "q_norm.weight", config.head_dim}}));
    ASSIGN_OR_RETURN(
        loaded.k_norm,
        loader.Vectors({{attention + "k_norm.weight", config.head_dim}}));
  }
  ASSIGN_OR_RETURN(loaded.qkv, LoadLinear(loader,
                                          {{attention + "q_proj", q_size},
                                           {attention + "k_proj", kv_size},
                                           {attention + "v_proj", kv_size}},
                                          hidden, config.attention_bias));
  ASSIGN_OR_RETURN(loaded.out,
                   LoadLinear(loader, {{attention + "o_proj", hidden}}, q_size,
                              config.attention_out_bias));
  ASSIGN_OR_RETURN(loaded.gate_up,
                   LoadGateUp(loader, mlp, config.ffn_size, hidden));
  ASSIGN_OR_RETURN(loaded.down,
                   LoadLinear(loader, {{mlp + "down_proj", hidden}},
                              config.ffn_size, /*has_bias=*/false));
  return loaded;
}

// float64: the angle of position 8000 needs more than 24 bits.
std::vector<float> MakeAngles(const ModelConfig& config, int64_t positions) {
  const std::vector<double> frequencies = RotaryFrequencies(config);
  const double scale = RotaryScale(config);
  std::vector<float> angles;
  angles.reserve(positions * frequencies.size() * 2);
  for (int64_t position = 0; position < positions; ++position) {
    for (double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      angles.push_back(static_cast<float>(std::cos(angle) * scale));
      angles.push_back(static_cast<float>(std::sin(angle) * scale));
    }
  }
  return angles;
}

}  // namespace

absl::Status CheckCudaCovers(const ModelConfig& config) {
  const auto need = [](bool is_so, const char* what) {
    return is_so ? absl::OkStatus()
                 : absl::UnimplementedError(
                       absl::StrCat("the CUDA backend needs ", what));
  };
  RETURN_IF_ERROR(need(config.architecture == Architecture::kLlama,
                       "a Llama or Qwen3 model"));
  RETURN_IF_ERROR(need(config.activation == Activation::kSilu, "SiLU"));
  RETURN_IF_ERROR(need(config.no_rope.empty(), "layers that all rotate"));
  RETURN_IF_ERROR(need(config.head_dim == 64 || config.head_dim == 128,
                       "heads of 64 or 128"));
  RETURN_IF_ERROR(need(config.num_heads <= 8 * config.num_kv_heads,
                       "at most 8 heads to a K/V head"));
  RETURN_IF_ERROR(need(config.hidden_size % 64 == 0, "hidden_size % 64 == 0"));
  RETURN_IF_ERROR(
      need(config.ffn_size % 64 == 0, "intermediate_size % 64 == 0"));
  RETURN_IF_ERROR(need(config.vocab_size <= cuda::kMostTokens,
                       "a vocabulary of at most 262144"));
  return need(!config.mlp_bias, "products of the MLP without bias");
}

absl::StatusOr<CudaWeights> LoadCudaWeights(const ModelConfig& config,
                                            const WeightFiles& files,
                                            int64_t positions,
                                            ComputeDevice& device) {
  const int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  Loader loader(files, device);
  CudaWeights weights;
  ASSIGN_OR_RETURN(weights.tokens,
                   LoadLinear(loader, {{"model.embed_tokens", vocab}}, hidden,
                              /*has_bias=*/false));
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        CudaLayer layer,
        LoadLayer(loader, config, absl::StrCat("model.layers.", i, ".")));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.final_norm,
                   loader.Vectors({{"model.norm.weight", hidden}}));
  if (!config.tied_head) {
    ASSIGN_OR_RETURN(weights.head, LoadLinear(loader, {{"lm_head", vocab}},
                                              hidden, /*has_bias=*/false));
  }
  ASSIGN_OR_RETURN(weights.angles,
                   loader.Upload(MakeAngles(config, positions)));
  weights.bytes = loader.bytes();
  return weights;
}

}  // namespace espalier
