#include "common/model/files/model_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_fields.h"
#include "common/json/parse_json.h"
#include "common/model/files/gguf_config.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/gguf_path.h"
#include "common/model/files/json_file.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

// Reads one id or a list of ids; every id lies in the vocabulary.
std::vector<TokenId> ReadEosIds(JsonFields& fields, int64_t vocab_size) {
  constexpr const char* kName = "eos_token_id";
  if (!fields.Has(kName)) return {};
  const Json& value = fields.json()[kName];
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size)) {
      fields.Fail(kName, absl::StrCat("must be in 0 .. ", vocab_size - 1));
      return {};
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

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

void ReadLlama3(JsonFields& rope, RopeScaling& scaling) {
  scaling.low_freq_factor = rope.Positive("low_freq_factor");
  scaling.high_freq_factor = rope.Positive("high_freq_factor");
  if (scaling.low_freq_factor >= scaling.high_freq_factor) {
    rope.Fail("low_freq_factor", "must be below high_freq_factor");
  }
}

// The positions that YaRN is for may be more than the file's own limit (Qwen).
void ReadYarn(JsonFields& rope, RopeScaling& scaling, ModelConfig& config) {
  if (config.rope_theta <= 1) rope.Fail("rope_theta", "must be above 1");
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

// Reads the rotary scaling. It keeps nothing of "dynamic", which changes
// positions from max_position_embeddings on: no text reaches these.
void ReadRopeScaling(JsonFields& rope, const std::string& type,
                     int64_t original_max_positions, ModelConfig& config) {
  if (type == "default") return;
  constexpr absl::string_view kKnown[] = {"linear", "llama3", "yarn",
                                          "dynamic"};
  if (std::find(std::begin(kKnown), std::end(kKnown), type) ==
      std::end(kKnown)) {
    rope.Unimplemented(absl::StrCat("rope_type \"", type, "\""));
    return;
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
    ReadYarn(rope, scaling, config);
  } else {
    return;  // dynamic
  }
  config.rope_scaling = scaling;
}

void ReadRope(JsonFields& fields, ModelConfig& config) {
  config.rope_theta = fields.Positive("rope_theta", config.rope_theta);
  if (fields.Positive("partial_rotary_factor", 1.0) != 1.0) {
    fields.Unimplemented("partial_rotary_factor other than 1");
  }
  // Newer files call the object rope_parameters and put the base inside.
  const char* name =
      fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.Has(name)) return;
  JsonFields rope = fields.Object(name);
  config.rope_theta = rope.Positive("rope_theta", config.rope_theta);
  if (rope.Positive("partial_rotary_factor", 1.0) != 1.0) {
    rope.Unimplemented("partial_rotary_factor other than 1");
  }
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const int64_t original = rope.Size(kOriginal, config.max_positions);
  ReadRopeScaling(rope, type, fields.Size(kOriginal, original), config);
  fields.Adopt(rope.status());
}

// A window that every text fits into is none.
void CheckWindow(JsonFields& fields, int64_t window, int64_t max_positions) {
  if (window >= max_positions) return;
  fields.Unimplemented(absl::StrCat("sliding_window ", window,
                                    " below max_position_embeddings ",
                                    max_positions));
}

void ReadMistral(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
  // In transformers, absent is not null.
  constexpr int64_t kDefaultWindow = 4096;
  if (fields.Has("sliding_window") ||
      !fields.json().contains("sliding_window")) {
    CheckWindow(fields, fields.Size("sliding_window", kDefaultWindow),
                config.max_positions);
  }
}

// Layers that do not rotate: a list with a 0 for each, or every so many.
void ReadNoRope(JsonFields& fields, ModelConfig& config) {
  config.no_rope.assign(config.num_layers, false);
  if (!fields.Has("no_rope_layers")) {
    const int64_t interval = fields.Size("no_rope_layer_interval", 4);
    for (int64_t i = interval - 1; i < config.num_layers; i += interval) {
      config.no_rope[i] = true;
    }
    return;
  }
  const std::vector<int32_t> rotates = fields.Indices("no_rope_layers");
  if (static_cast<int64_t>(rotates.size()) < config.num_layers) {
    fields.Fail("no_rope_layers",
                absl::StrCat("must have an entry for each of ",
                             config.num_layers, " layers"));
    return;
  }
  for (int64_t i = 0; i < config.num_layers; ++i) {
    config.no_rope[i] = rotates[i] == 0;
  }
}

void ReadQwen3(JsonFields& fields, ModelConfig& config) {
  if (!fields.Has("head_dim")) fields.Fail("head_dim", "is missing");
  ReadLlamaFields(fields, config);
  config.qk_norm = true;
  if (config.attention_bias) fields.Unimplemented("attention_bias true");
  CheckFullAttention(fields);
}

void ReadQwen2(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
  config.attention_bias = true;
  config.attention_out_bias = false;
  CheckFullAttention(fields);
}

void ReadSmolLm3(JsonFields& fields, ModelConfig& config) {
  config.rope_theta = 2000000.0;
  ReadLlamaFields(fields, config);
  config.tied_head = fields.Flag("tie_word_embeddings", true);
  ReadNoRope(fields, config);
  CheckFullAttention(fields);
}

void ReadGpt2(JsonFields& fields, ModelConfig& config) {
  config.architecture = Architecture::kGpt2;
  config.num_layers = fields.Size("n_layer");
  config.hidden_size = fields.Size("n_embd");
  config.num_heads = fields.Size("n_head");
  config.num_kv_heads = config.num_heads;
  if (config.hidden_size % config.num_heads != 0) {
    fields.Fail("n_head", "must divide n_embd");
  }
  config.head_dim = std::max<int64_t>(1, config.hidden_size / config.num_heads);
  config.ffn_size = fields.Size("n_inner", 4 * config.hidden_size);
  config.max_positions = fields.Size("n_positions");
  config.activation = ReadActivation(fields, "activation_function", "gelu_new");
  config.norm_epsilon = fields.Positive("layer_norm_epsilon", 1e-5);
  config.tied_head = fields.Flag("tie_word_embeddings", true);
  if (!fields.Flag("scale_attn_weights", true)) {
    fields.Unimplemented("scale_attn_weights false");
  }
  if (fields.Flag("scale_attn_by_inverse_layer_idx", false)) {
    fields.Unimplemented("scale_attn_by_inverse_layer_idx true");
  }
}

std::string ReadArchitecture(JsonFields& fields) {
  const Json& json = fields.json();
  const bool named =
      json.contains("architectures") && json["architectures"].is_array() &&
      json["architectures"].size() == 1 && json["architectures"][0].is_string();
  if (!named) {
    fields.Fail("architectures", "must be a list of one name");
    return "";
  }
  return json["architectures"][0].get<std::string>();
}

bool IsMixture(const std::string& architecture) {
  for (const char* part : {"Moe", "MoE", "Mixtral"}) {
    if (absl::StrContains(architecture, part)) return true;
  }
  return false;
}

absl::StatusOr<ModelConfig> FromJson(const Json& json,
                                     const std::string& source) {
  JsonFields fields(json, source);
  const std::string architecture = ReadArchitecture(fields);
  RETURN_IF_ERROR(fields.status());
  ModelConfig config;
  config.vocab_size = fields.Size("vocab_size");
  if (architecture == "LlamaForCausalLM") {
    ReadLlamaFields(fields, config);
  } else if (architecture == "Qwen2ForCausalLM") {
    ReadQwen2(fields, config);
  } else if (architecture == "Qwen3ForCausalLM") {
    ReadQwen3(fields, config);
  } else if (architecture == "MistralForCausalLM") {
    ReadMistral(fields, config);
  } else if (architecture == "SmolLM3ForCausalLM") {
    ReadSmolLm3(fields, config);
  } else if (architecture == "GPT2LMHeadModel") {
    ReadGpt2(fields, config);
  } else {
    return absl::UnimplementedError(absl::StrCat(
        source, ": architecture \"", architecture, "\"",
        IsMixture(architecture) ? ", a mixture of experts," : "",
        " is not implemented; known: GPT2LMHeadModel, LlamaForCausalLM, "
        "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
        "SmolLM3ForCausalLM"));
  }
  if (fields.Has("quantization_config")) {
    fields.Unimplemented("quantization_config");
  }
  config.eos_ids = ReadEosIds(fields, config.vocab_size);
  RETURN_IF_ERROR(fields.status());
  return config;
}

}  // namespace

void CheckFullAttention(JsonFields& fields) {
  if (fields.Flag("use_sliding_window", false)) {
    fields.Unimplemented("use_sliding_window true");
    return;
  }
  if (!fields.Has("layer_types")) return;
  const Json& types = fields.json()["layer_types"];
  if (!types.is_array()) fields.Fail("layer_types", "must be a list");
  for (const Json& type : types) {
    if (type != "full_attention") {
      fields.Unimplemented(absl::StrCat("layer_types: ", type.dump()));
    }
  }
}

void ReadLlamaFields(JsonFields& fields, ModelConfig& config) {
  config.architecture = Architecture::kLlama;
  config.num_layers = fields.Size("num_hidden_layers");
  config.hidden_size = fields.Size("hidden_size");
  config.num_heads = fields.Size("num_attention_heads");
  config.num_kv_heads = fields.Size("num_key_value_heads", config.num_heads);
  if (!fields.Has("head_dim") && config.hidden_size % config.num_heads != 0) {
    fields.Fail("num_attention_heads", "must divide hidden_size");
  }
  config.head_dim = fields.Size(
      "head_dim", std::max<int64_t>(1, config.hidden_size / config.num_heads));
  config.ffn_size = fields.Size("intermediate_size");
  config.max_positions = fields.Size("max_position_embeddings", 2048);
  config.activation = ReadActivation(fields, "hidden_act", "silu");
  config.norm_epsilon = fields.Positive("rms_norm_eps", 1e-6);
  config.attention_bias = fields.Flag("attention_bias", false);
  config.attention_out_bias = config.attention_bias;
  config.mlp_bias = fields.Flag("mlp_bias", false);
  config.tied_head = fields.Flag("tie_word_embeddings", false);
  ReadRope(fields, config);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Fail("num_key_value_heads", "must divide num_attention_heads");
  }
  if (config.head_dim % 2 != 0) {
    fields.Fail("head_dim", "must be even for rotary positions");
  }
}

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text,
                                             const std::string& source) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, source));
  return FromJson(json, source);
}

namespace {

absl::StatusOr<ModelConfig> ReadFolderConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  ASSIGN_OR_RETURN(const Json json, ReadJsonObject(path));
  ASSIGN_OR_RETURN(ModelConfig config, FromJson(json, path));
  const std::string generation_path = folder + "/generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(generation_path, ignored)) return config;
  ASSIGN_OR_RETURN(const Json generation, ReadJsonObject(generation_path));
  JsonFields fields(generation, generation_path);
  if (fields.Has("eos_token_id")) {
    config.eos_ids = ReadEosIds(fields, config.vocab_size);
    RETURN_IF_ERROR(fields.status());
  }
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> gguf, GgufPathOf(path));
  if (!gguf.has_value()) return ReadFolderConfig(path);
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*gguf));
  return ReadGgufConfig(file);
}

std::vector<double> RotaryFrequencies(const ModelConfig& config) {
  std::vector<double> frequencies =
      ScaledFrequencies(config.rope_scaling.value_or(RopeScaling()),
                        config.rope_theta, config.head_dim);
  for (size_t i = 0; i < config.rope_factors.size(); ++i) {
    frequencies[i] /= config.rope_factors[i];
  }
  return frequencies;
}

double RotaryScale(const ModelConfig& config) {
  return config.rope_scaling.has_value() ? config.rope_scaling->attention_factor
                                         : 1;
}

bool Rotates(const ModelConfig& config, int64_t index) {
  return config.no_rope.empty() || !config.no_rope[index];
}

}  // namespace espalier
