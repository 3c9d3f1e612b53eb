#include "common/model/files/architectures/gemma_layers.h"

#include <cmath>

#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

void DescribeGemma(double query_scalar, ModelConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  for (LayerShape& layer : config.layers) {
    layer.query_scalar =
        query_scalar == static_cast<double>(config.head_dim) ? 0 : query_scalar;
    layer.norms_after = true;
    layer.activation = Activation::kGeluTanh;
  }
}

// In transformers, absent is not null.
double ReadSoftcap(JsonFields& fields, const char* name, double fallback) {
  if (fields.Has(name)) return fields.Positive(name);
  return fields.json().contains(name) ? 0 : fallback;
}

}  // namespace

void ReadGemmaFolder(JsonFields& fields, const GemmaDefaults& defaults,
                     ModelConfig& config) {
  ReadLlamaFields(fields, config,
                  {.tied_head = true,
                   .activation_field = "hidden_activation",
                   .activation = "gelu_pytorch_tanh",
                   .head_dim = 256,
                   .max_positions = defaults.max_positions});
  if (config.layers.front().activation != Activation::kGeluTanh) {
    fields.Unimplemented("hidden_activation but gelu_pytorch_tanh");
  }
  if (fields.Flag("use_bidirectional_attention", false)) {
    fields.Unimplemented("use_bidirectional_attention true");
  }
  DescribeGemma(fields.Positive("query_pre_attn_scalar", 256.0), config);
  const double score_softcap =
      ReadSoftcap(fields, "attn_logit_softcapping", defaults.score_softcap);
  for (LayerShape& layer : config.layers) layer.score_softcap = score_softcap;
  config.logit_softcap =
      ReadSoftcap(fields, "final_logit_softcapping", defaults.logit_softcap);
}

void ReadGemmaGguf(GgufFields& fields, int64_t layers_of_27b,
                   ModelConfig& config) {
  ReadGgufFields(fields, config);
  RefuseGgufExperts(fields);
  const int64_t per_head = config.hidden_size / config.num_heads;
  DescribeGemma(
      static_cast<double>(config.num_layers == layers_of_27b ? per_head
                                                             : config.head_dim),
      config);
}

}  // namespace espalier
