#include "common/model/files/gguf_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

// Refuses fields that would change the result and are not implemented.
void RefuseUnknownGguf(GgufFields& fields) {
  fields.Refuse("rope.scaling.attn_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_attn_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_ext_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_log_multiplier", 0.0);
  fields.Refuse("attention.causal", true);
  fields.Refuse("attention.clamp_kqv", 0.0);
  fields.Refuse("attention.max_alibi_bias", 0.0);
  for (const char* scale : {"attention.scale", "embedding_scale",
                            "residual_scale", "logit_scale"}) {
    fields.Refuse(scale, 1.0);
  }
}

void ReadGgufSizes(GgufFields& fields, ModelConfig& config) {
  config.num_layers = fields.Size("block_count");
  if (config.num_layers > kMaxLayers) {
    fields.Fail("block_count",
                absl::StrCat("must be an integer of 1 .. ", kMaxLayers));
    config.num_layers = 1;
  }
  config.hidden_size = fields.Size("embedding_length");
  config.num_heads = fields.Size("attention.head_count");
  config.num_kv_heads =
      fields.Size("attention.head_count_kv", config.num_heads);
  if (!fields.Has("attention.key_length") &&
      config.hidden_size % config.num_heads != 0) {
    fields.Fail("attention.head_count", "must divide embedding_length");
  }
  config.head_dim =
      fields.Size("attention.key_length",
                  std::max<int64_t>(1, config.hidden_size / config.num_heads));
  config.max_positions = fields.Size("context_length");
  config.norm_epsilon = fields.Positive("attention.layer_norm_rms_epsilon");
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Fail("attention.head_count_kv", "must divide attention.head_count");
  }
  if (config.head_dim % 2 != 0) {
    fields.Fail("attention.key_length", "must be even for rotary positions");
  }
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    if (fields.Size(name, config.head_dim) != config.head_dim) {
      fields.Fail(name,
                  absl::StrCat("must be the heads' size, ", config.head_dim));
    }
  }
}

// Reads the scaling like llama.cpp: a factor without a type is linear, and
// YaRN's attention factor follows from its factor.
std::optional<RopeScaling> ReadGgufScaling(GgufFields& fields, double theta,
                                           const ModelConfig& config) {
  const char* factor = fields.Has("rope.scale_linear") ? "rope.scale_linear"
                                                       : "rope.scaling.factor";
  const std::string type = fields.Text("rope.scaling.type", "linear");
  RopeScaling scaling = {.factor = fields.Positive(factor, 1.0)};
  if (type == "none" || (type == "linear" && scaling.factor == 1)) {
    return std::nullopt;
  }
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.original_max_positions = fields.Size(
        "rope.scaling.original_context_length", config.max_positions);
    scaling.beta_fast = fields.Positive("rope.scaling.yarn_beta_fast", 32.0);
    scaling.beta_slow = fields.Positive("rope.scaling.yarn_beta_slow", 1.0);
    scaling.attention_factor = YarnAttentionFactor(scaling.factor);
    if (theta <= 1) {
      fields.Fail("rope.freq_base", "must be above 1");
    }
  } else if (type != "linear") {
    fields.Unimplemented("rope.scaling.type", absl::StrCat("\"", type, "\""));
  }
  return scaling;
}

}  // namespace

void ReadGgufFields(GgufFields& fields, ModelConfig& config) {
  ReadGgufSizes(fields, config);
  const LayerShape layer = {.ffn_size = fields.Size("feed_forward_length")};
  config.layers.assign(config.num_layers, layer);
  RotaryTable table = {.theta = fields.Positive("rope.freq_base", 10000.0)};
  table.scaling = ReadGgufScaling(fields, table.theta, config);
  config.rotary = {table};
  RefuseUnknownGguf(fields);
}

void RefuseGgufExperts(GgufFields& fields) { fields.Refuse("expert_count", 0); }

// A window that every text fits into is none.
void RefuseGgufWindow(GgufFields& fields, const ModelConfig& config) {
  constexpr const char* kName = "attention.sliding_window";
  if (!fields.Has(kName)) return;
  const int64_t window = fields.Size(kName);
  if (window >= config.max_positions) return;
  fields.Unimplemented(kName, absl::StrCat(window, " below context_length"));
}

void ReadDenseGguf(GgufFields& fields, ModelConfig& config) {
  ReadGgufFields(fields, config);
  RefuseGgufExperts(fields);
  RefuseGgufWindow(fields, config);
}

}  // namespace espalier
