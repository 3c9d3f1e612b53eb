#include "common/model/cuda/cuda_weights.h"

#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_weight_loader.h"
#include "common/model/cuda/device_vectors.h"
#include "common/model/files/layer_features.h"

namespace espalier {

using cuda::ComputeDevice;
using cuda::DeviceArray;

namespace {

// `mlp`: the prefix of the tensors' names.
absl::StatusOr<CudaExperts> LoadExperts(const ExpertsShape& shape,
                                        int64_t hidden, const std::string& mlp,
                                        CudaWeightLoader& loader) {
  std::vector<CudaWeightLoader::GatedPart> gate_up;
  std::vector<CudaWeightLoader::Part> down;
  for (int64_t i = 0; i < shape.count; ++i) {
    const std::string expert = absl::StrCat(mlp, "experts.", i, ".");
    gate_up.push_back({{expert + "gate_proj", shape.ffn_size},
                       {expert + "up_proj", shape.ffn_size}});
    down.push_back({expert + "down_proj", hidden});
  }
  CudaExperts experts;
  ASSIGN_OR_RETURN(experts.router,
                   loader.Floats({mlp + "gate", shape.count}, hidden));
  ASSIGN_OR_RETURN(experts.gate_up, loader.Gated(gate_up, hidden));
  ASSIGN_OR_RETURN(experts.down, loader.Linear(down, shape.ffn_size,
                                               /*has_bias=*/false));
  return experts;
}

}  // namespace

absl::StatusOr<CudaLayer> LoadCudaLayer(const ModelConfig& config,
                                        int64_t index, const std::string& layer,
                                        CudaWeightLoader& loader) {
  ASSIGN_OR_RETURN(
      DeviceArray<float> norm,
      loader.Vectors({{layer + "input_layernorm.weight", config.hidden_size}}));
  ASSIGN_OR_RETURN(CudaLayer loaded,
                   LoadCudaLayerBehindNorm(config, index, layer,
                                           config.hidden_size, loader));
  loaded.attention_norm = std::move(norm);
  return loaded;
}

absl::StatusOr<CudaLayer> LoadCudaLayerBehindNorm(const ModelConfig& config,
                                                  int64_t index,
                                                  const std::string& layer,
                                                  int64_t inputs,
                                                  CudaWeightLoader& loader) {
  const LayerShape& shape = config.layers[index];
  const int64_t hidden = config.hidden_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  CudaLayer loaded;
  ASSIGN_OR_RETURN(
      loaded.ffn_norm,
      loader.Vectors({{layer + "post_attention_layernorm.weight", hidden}}));
  if (shape.norms_after) {
    ASSIGN_OR_RETURN(
        loaded.attention_out_norm,
        loader.Vectors({{layer + "attention_output_norm.weight", hidden}}));
    ASSIGN_OR_RETURN(
        loaded.ffn_out_norm,
        loader.Vectors({{layer + "ffn_output_norm.weight", hidden}}));
  }
  if (shape.head_norm != HeadNorm::kNone) {
    ASSIGN_OR_RETURN(
        loaded.q_norm,
        loader.Vectors({{attention + "q_norm.weight", config.head_dim}}));
    ASSIGN_OR_RETURN(
        loaded.k_norm,
        loader.Vectors({{attention + "k_norm.weight", config.head_dim}}));
  }
  ASSIGN_OR_RETURN(loaded.qkv, loader.Linear({{attention + "q_proj", q_size},
                                              {attention + "k_proj", kv_size},
                                              {attention + "v_proj", kv_size}},
                                             inputs, shape.attention_bias));
  ASSIGN_OR_RETURN(loaded.out, loader.Linear({{attention + "o_proj", hidden}},
                                             q_size, shape.attention_out_bias));
  if (!shape.is_dense()) {
    ASSIGN_OR_RETURN(loaded.experts,
                     LoadExperts(shape.experts, hidden, mlp, loader));
    return loaded;
  }
  ASSIGN_OR_RETURN(loaded.gate_up,
                   loader.Gated({{{mlp + "gate_proj", shape.ffn_size},
                                  {mlp + "up_proj", shape.ffn_size}}},
                                hidden));
  ASSIGN_OR_RETURN(loaded.down,
                   loader.Linear({{mlp + "down_proj", hidden}}, shape.ffn_size,
                                 /*has_bias=*/false));
  return loaded;
}

absl::StatusOr<CudaKvProduct> LoadCudaKv(const ModelConfig& config,
                                         const std::string& layers,
                                         CudaWeightLoader& loader) {
  const LayerShape& shape = config.layers.front();
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  std::vector<CudaWeightLoader::Part> parts, norms;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string attention = absl::StrCat(layers, i, ".self_attn.");
    parts.push_back({attention + "k_proj", kv_size});
    parts.push_back({attention + "v_proj", kv_size});
    norms.push_back({attention + "k_norm.weight", config.head_dim});
  }
  CudaKvProduct kv;
  ASSIGN_OR_RETURN(kv.product, loader.Linear(parts, config.hidden_size,
                                             shape.attention_bias));
  if (shape.head_norm != HeadNorm::kNone) {
    ASSIGN_OR_RETURN(kv.key_norms, loader.Vectors(norms));
  }
  return kv;
}

absl::Status CheckCudaCovers(const ModelConfig& config) {
  const auto need = [](bool is_so, const char* what) {
    return is_so ? absl::OkStatus()
                 : absl::UnimplementedError(
                       absl::StrCat("the CUDA backend needs ", what));
  };
  RETURN_IF_ERROR(
      need(config.kind == DecoderKind::kLlama, "another kind than GPT-2's"));
  RETURN_IF_ERROR(CheckFeatures(
      config,
      {LayerFeature::kExperts, LayerFeature::kWindows,
       LayerFeature::kSeveralRotaryTables, LayerFeature::kNormsAfter,
       LayerFeature::kQueryScalar, LayerFeature::kEmbeddingScale},
      "the CUDA backend"));
  // Layers are alike but for windows and experts.
  const LayerShape& layer = config.layers.front();
  RETURN_IF_ERROR(need(layer.activation != Activation::kGelu,
                       "SiLU or GELU approximated by tanh"));
  RETURN_IF_ERROR(need(
      config.head_dim == 64 || config.head_dim == 128 || config.head_dim == 256,
      "heads of 64, 128 or 256"));
  RETURN_IF_ERROR(need(config.num_heads <= 8 * config.num_kv_heads,
                       "at most 8 heads to a K/V head"));
  RETURN_IF_ERROR(need(config.hidden_size % 64 == 0, "hidden_size % 64 == 0"));
  RETURN_IF_ERROR(need(config.hidden_size <= cuda::kMaxNormColumns,
                       "hidden_size of at most 32768"));
  RETURN_IF_ERROR(
      need(!layer.norms_after || config.hidden_size <= cuda::kMaxAddedColumns,
           "hidden_size of at most 16384 where outputs are normed"));
  for (const LayerShape& each : config.layers) {
    RETURN_IF_ERROR(need(!each.is_dense() || each.ffn_size % 64 == 0,
                         "intermediate_size % 64 == 0"));
    RETURN_IF_ERROR(need(each.experts.ffn_size % 64 == 0,
                         "moe_intermediate_size % 64 == 0"));
    RETURN_IF_ERROR(
        need(each.experts.count <= cuda::kMaxExperts, "at most 512 experts"));
  }
  RETURN_IF_ERROR(need(config.vocab_size <= cuda::kMaxTokens,
                       "a vocabulary of at most 262144"));
  return need(!layer.mlp_bias, "products of the MLP without bias");
}

absl::StatusOr<CudaWeights> LoadCudaWeights(const ModelConfig& config,
                                            const WeightFiles& files,
                                            ComputeDevice& device,
                                            nn::ThreadPool& pool,
                                            const CudaWeightTypes& types) {
  const int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  CudaWeightLoader loader(files, device, pool, types.layers);
  CudaWeights weights;
  ASSIGN_OR_RETURN(weights.tokens,
                   loader.Vocabulary({"model.embed_tokens", vocab}, hidden,
                                     CudaWeightType::kBf16));
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        CudaLayer layer,
        LoadCudaLayer(config, i, absl::StrCat("model.layers.", i, "."),
                      loader));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.final_norm,
                   loader.Vectors({{"model.norm.weight", hidden}}));
  if (!config.tied_head || types.head != weights.tokens.type) {
    const char* const head =
        config.tied_head ? "model.embed_tokens" : "lm_head";
    ASSIGN_OR_RETURN(weights.head,
                     loader.Vocabulary({head, vocab}, hidden, types.head));
  }
  weights.bytes = loader.bytes();
  RETURN_IF_ERROR(device.Wait(device.Record()));
  return weights;
}

namespace {

// float64: the angle of position 8000 needs more than 24 bits.
std::vector<float> AnglesOf(const ModelConfig& config, int32_t table,
                            int64_t positions) {
  const std::vector<double> frequencies = RotaryFrequencies(config, table);
  const double scale = RotaryScale(config, table);
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

absl::StatusOr<CudaAngles> MakeCudaAngles(const ModelConfig& config,
                                          int64_t positions,
                                          ComputeDevice& device) {
  CudaAngles tables;
  for (int32_t i = 0; i < std::ssize(config.rotary); ++i) {
    ASSIGN_OR_RETURN(tables.emplace_back(),
                     SendFloats(device, AnglesOf(config, i, positions)));
  }
  return tables;
}

}  // namespace espalier
