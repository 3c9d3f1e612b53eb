#include "common/model/files/llama_fields.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

void ReadLlama3(JsonFields& rope, RopeScaling& scaling) {
  scaling.low_freq_factor = rope.Positive("low_freq_factor");
  scaling.high_freq_factor = rope.Positive("high_freq_factor");
  if (scaling.low_freq_factor >= scaling.high_freq_factor) {
    rope.Fail("low_freq_factor", "must be below high_freq_factor");
  }
}

// The positions that YaRN is for may be more than the file's own limit (Qwen).
void ReadYarn(JsonFields& rope, double theta, RopeScaling& scaling,
              ModelConfig& config) {
  if (theta <= 1) rope.Fail("rope_theta", "must be above 1");
  const double positions = scaling.factor * scaling.original_max_positions;
  config.max_positions = std::max(
      config.max_positions,
      static_cast<int64_t>(std::min<double>(positions, JsonFields::kMaxSize)));
  scaling.beta_fast = rope.Positive("beta_fast", 32.0);
  scaling.beta_slow = rope.Positive("beta_slow", 1.0);
  if (scaling.beta_slow >= scaling.beta_fast) {
    rope.Fail("beta_slow", "must be below beta_fast");
  }
  scaling.truncate = rope.Flag("truncate", true);
  scaling.attention_factor = YarnAttentionFactor(scaling.factor);
  if (rope.Has("mscale") && rope.Has("mscale_all_dim")) {
    scaling.attention_factor =
        YarnAttentionFactor(scaling.factor, rope.Positive("mscale")) /
        YarnAttentionFactor(scaling.factor, rope.Positive("mscale_all_dim"));
  }
  scaling.attention_factor =
      rope.Positive("attention_factor", scaling.attention_factor);
}

// Returns the rotary scaling. It keeps nothing of "dynamic", which changes
// positions from max_position_embeddings on: no text reaches these.
std::optional<RopeScaling> ReadRopeScaling(JsonFields& rope, double theta,
                                           int64_t original_max_positions,
                                           ModelConfig& config) {
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  if (type == "default") return std::nullopt;
  constexpr absl::string_view kKnown[] = {"linear", "llama3", "yarn",
                                          "dynamic"};
  if (std::find(std::begin(kKnown), std::end(kKnown), type) ==
      std::end(kKnown)) {
    rope.Unimplemented(absl::StrCat("rope_type \"", type, "\""));
    return std::nullopt;
  }
  RopeScaling scaling = {.factor = rope.Positive("factor"),
                         .original_max_positions = original_max_positions};
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    ReadLlama3(rope, scaling);
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    ReadYarn(rope, theta, scaling, config);
  } else {
    return std::nullopt;  // dynamic
  }
  return scaling;
}

void RefusePartialRotation(JsonFields& fields) {
  if (fields.Positive("partial_rotary_factor", 1.0) != 1.0) {
    fields.Unimplemented("partial_rotary_factor other than 1");
  }
}

void ReadLlamaSizes(JsonFields& fields, const LlamaDefaults& defaults,
                    ModelConfig& config) {
  config.num_layers = ReadLayerCount(fields, "num_hidden_layers");
  config.hidden_size = fields.Size("hidden_size");
  config.num_heads = fields.Size("num_attention_heads");
  config.num_kv_heads = fields.Size("num_key_value_heads", config.num_heads);
  int64_t head_dim = defaults.head_dim;
  if (head_dim == 0) {
    head_dim = std::max<int64_t>(1, config.hidden_size / config.num_heads);
    if (!fields.Has("head_dim") && config.hidden_size % config.num_heads != 0) {
      fields.Fail("num_attention_heads", "must divide hidden_size");
    }
  }
  config.head_dim = fields.Size("head_dim", head_dim);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Fail("num_key_value_heads", "must divide num_attention_heads");
  }
  if (config.head_dim % 2 != 0) {
    fields.Fail("head_dim", "must be even for rotary positions");
  }
  config.max_positions =
      fields.Size("max_position_embeddings", defaults.max_positions);
  config.norm_epsilon = fields.Positive("rms_norm_eps", defaults.norm_epsilon);
}

}  // namespace

Activation ReadActivation(JsonFields& fields, const char* name,
                          const std::string& fallback) {
  const std::string text = fields.Text(name, fallback);
  if (text == "silu" || text == "swish") return Activation::kSilu;
  if (text == "gelu") return Activation::kGelu;
  if (text == "gelu_new" || text == "gelu_pytorch_tanh") {
    return Activation::kGeluTanh;
  }
  fields.Unimplemented(absl::StrCat(name, " \"", text, "\""));
  return Activation::kSilu;
}

RotaryTable ReadRotary(JsonFields& rope, double theta,
                       std::optional<int64_t> original_max_positions,
                       ModelConfig& config) {
  RefusePartialRotation(rope);
  RotaryTable table = {.theta = rope.Positive("rope_theta", theta)};
  const int64_t original =
      rope.Size("original_max_position_embeddings", config.max_positions);
  table.scaling = ReadRopeScaling(
      rope, table.theta, original_max_positions.value_or(original), config);
  return table;
}

RotaryTable ReadRope(JsonFields& fields, double theta, ModelConfig& config) {
  theta = fields.Positive("rope_theta", theta);
  RefusePartialRotation(fields);
  // Newer files call the object rope_parameters and put the base inside.
  const char* name =
      fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.Has(name)) return {.theta = theta};
  std::optional<int64_t> original;
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (fields.Has(kOriginal)) original = fields.Size(kOriginal);
  JsonFields rope = fields.Object(name);
  RotaryTable table = ReadRotary(rope, theta, original, config);
  fields.Adopt(rope.status());
  return table;
}

int64_t ReadLayerCount(JsonFields& fields, const char* name) {
  const int64_t count = fields.Size(name);
  if (count <= kMaxLayers) return count;
  fields.Fail(name, absl::StrCat("must be an integer of 1 .. ", kMaxLayers));
  return 1;
}

void ReadLlamaFields(JsonFields& fields, ModelConfig& config,
                     const LlamaDefaults& defaults) {
  ReadLlamaSizes(fields, defaults, config);
  const bool attention_bias = fields.Flag("attention_bias", false);
  const LayerShape layer = {
      .attention_bias = attention_bias,
      .attention_out_bias = attention_bias,
      .mlp_bias = fields.Flag("mlp_bias", false),
      .activation = ReadActivation(fields, defaults.activation_field,
                                   defaults.activation),
      .ffn_size = fields.Size("intermediate_size")};
  config.layers.assign(config.num_layers, layer);
  config.tied_head = fields.Flag("tie_word_embeddings", defaults.tied_head);
  config.rotary = {ReadRope(fields, defaults.rope_theta, config)};
}

}  // namespace espalier
