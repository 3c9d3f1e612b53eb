#include "common/model/files/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_fields.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

// The file does not say which layers do not rotate.
constexpr int64_t kSmolLm3RopeInterval = 4;

// A value as the readers of config.json want it. Arrays are left out: no field
// of a configuration that this engine has is one.
struct ToJson {
  // JsonFields takes integers above 0 that are unsigned in JSON.
  Json operator()(int64_t value) const {
    return value < 0 ? Json(value) : Json(static_cast<uint64_t>(value));
  }
  Json operator()(uint64_t value) const { return value; }
  Json operator()(double value) const { return value; }
  Json operator()(bool value) const { return value; }
  Json operator()(std::string_view text) const {
    return absl::CHexEscape(std::string(text));
  }
  template <typename Array>
  Json operator()(const Array&) const {
    return Json::array();
  }
};

Json ScalarsOf(const GgufFile& file, const std::string& prefix) {
  Json json = Json::object();
  for (const auto& [key, value] : file.metadata()) {
    const std::string name(key);
    if (absl::StartsWith(name, prefix))
      json[name] = std::visit(ToJson{}, value);
  }
  return json;
}

// The fields of one architecture, whose names begin with its own.
class GgufFields {
 public:
  GgufFields(const Json& json, const std::string& path, std::string prefix)
      : fields_(json, path), prefix_(std::move(prefix)) {}

  int64_t Size(const char* name, std::optional<int64_t> fallback = {}) {
    return fields_.Size(Key(name).c_str(), fallback);
  }
  double Positive(const char* name, std::optional<double> fallback = {}) {
    return fields_.Positive(Key(name).c_str(), fallback);
  }
  std::string Text(const char* name, const std::string& fallback) {
    return fields_.Text(Key(name), fallback);
  }
  void Unimplemented(const char* name, const std::string& what) {
    fields_.Unimplemented(absl::StrCat(Key(name), " ", what));
  }
  void Fail(const char* name, const std::string& problem) {
    fields_.Fail(Key(name).c_str(), problem);
  }
  bool Has(const char* name) const { return fields_.Has(Key(name).c_str()); }

  // Refuses a field that is there with another value than `neutral`.
  void Refuse(const char* name, const Json& neutral) {
    if (!Has(name)) return;
    const Json& value = fields_.json()[Key(name)];
    if (value != neutral) {
      fields_.Unimplemented(absl::StrCat(Key(name), " ", value.dump()));
    }
  }

  const absl::Status& status() const { return fields_.status(); }

 private:
  std::string Key(const char* name) const { return prefix_ + name; }

  JsonFields fields_;
  std::string prefix_;
};

// Refuses fields that would change the result and are not implemented.
void RefuseUnknown(GgufFields& fields) {
  fields.Refuse("rope.scaling.attn_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_attn_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_ext_factor", 1.0);
  fields.Refuse("rope.scaling.yarn_log_multiplier", 0.0);
  fields.Refuse("expert_count", 0);
  fields.Refuse("attention.causal", true);
  fields.Refuse("attention.clamp_kqv", 0.0);
  fields.Refuse("attention.max_alibi_bias", 0.0);
  for (const char* scale : {"attention.scale", "embedding_scale",
                            "residual_scale", "logit_scale"}) {
    fields.Refuse(scale, 1.0);
  }
}

void ReadSizes(GgufFields& fields, ModelConfig& config) {
  config.num_layers = fields.Size("block_count");
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
  config.ffn_size = fields.Size("feed_forward_length");
  config.max_positions = fields.Size("context_length");
  config.norm_epsilon = fields.Positive("attention.layer_norm_rms_epsilon");
  config.rope_theta = fields.Positive("rope.freq_base", 10000.0);
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

// A window that every text fits into is none.
void CheckWindow(GgufFields& fields, const ModelConfig& config) {
  constexpr const char* kName = "attention.sliding_window";
  if (!fields.Has(kName)) return;
  const int64_t window = fields.Size(kName);
  if (window >= config.max_positions) return;
  fields.Unimplemented(kName, absl::StrCat(window, " below context_length"));
}

// Reads the scaling like llama.cpp: a factor without a type is linear, and
// YaRN's attention factor follows from its factor.
void ReadGgufRopeScaling(GgufFields& fields, ModelConfig& config) {
  const char* factor = fields.Has("rope.scale_linear") ? "rope.scale_linear"
                                                       : "rope.scaling.factor";
  const std::string type = fields.Text("rope.scaling.type", "linear");
  RopeScaling scaling = {.factor = fields.Positive(factor, 1.0)};
  if (type == "none" || (type == "linear" && scaling.factor == 1)) return;
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.original_max_positions = fields.Size(
        "rope.scaling.original_context_length", config.max_positions);
    scaling.beta_fast = fields.Positive("rope.scaling.yarn_beta_fast", 32.0);
    scaling.beta_slow = fields.Positive("rope.scaling.yarn_beta_slow", 1.0);
    scaling.attention_factor = YarnAttentionFactor(scaling.factor);
    if (config.rope_theta <= 1) {
      fields.Fail("rope.freq_base", "must be above 1");
    }
  } else if (type != "linear") {
    fields.Unimplemented("rope.scaling.type", absl::StrCat("\"", type, "\""));
  }
  config.rope_scaling = scaling;
}

// Every layer has what the first one has (ReadGgufWeights checks it).
void ReadTensorFlags(const GgufFile& file, ModelConfig& config) {
  const auto has = [&](std::string_view name) {
    return file.tensors().count(name) > 0;
  };
  config.attention_bias = has("blk.0.attn_q.bias");
  config.attention_out_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_up.bias");
  config.tied_head = !has(kOutputTensor);
}

absl::StatusOr<int64_t> ReadVocabSize(const GgufFile& file) {
  const auto found = file.tensors().find(kTokenTensor);
  if (found == file.tensors().end() || found->second.dims.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no tensor ", std::string(kTokenTensor),
                     " with a row for each token"));
  }
  const int64_t size = found->second.dims[1];
  if (size < 1 || size > JsonFields::kMaxSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", std::string(kTokenTensor), " has ", size,
                     " rows, not 1 .. ", JsonFields::kMaxSize));
  }
  return size;
}

absl::StatusOr<std::vector<double>> ReadRopeFactors(const GgufFile& file,
                                                    int64_t head_dim) {
  const auto found = file.tensors().find(kRopeFactorsTensor);
  if (found == file.tensors().end()) return std::vector<double>();
  const GgufTensor& tensor = found->second;
  if (tensor.type != GgufTensorType::kF32 ||
      tensor.dims != std::vector<int64_t>{head_dim / 2}) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", std::string(kRopeFactorsTensor), " is not ",
                     head_dim / 2, " numbers of type F32"));
  }
  const GgufNumbers<float> numbers(tensor.data);
  std::vector<double> factors;
  for (size_t i = 0; i < numbers.size(); ++i) {
    factors.push_back(numbers[i]);
    if (std::isfinite(factors.back()) && factors.back() > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", std::string(kRopeFactorsTensor),
                     ": a factor is ", factors.back(), ", not above 0"));
  }
  return factors;
}

absl::StatusOr<std::string_view> ReadArchitecture(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view name,
                   file.Get<std::string_view>("general.architecture"));
  for (std::string_view known : {"llama", "qwen2", "qwen3", "smollm3"}) {
    if (name == known) return name;
  }
  return file.Error(absl::UnimplementedError(absl::StrCat(
      "general.architecture \"", absl::CHexEscape(std::string(name)),
      "\" is not implemented; known: llama, qwen2, qwen3, smollm3")));
}

absl::StatusOr<ModelConfig> Read(const GgufFile& file,
                                 const std::string& architecture) {
  const std::string prefix = architecture + ".";
  const Json json = ScalarsOf(file, prefix);
  GgufFields fields(json, file.path(), prefix);
  ModelConfig config;
  ReadSizes(fields, config);
  CheckWindow(fields, config);
  ReadGgufRopeScaling(fields, config);
  RefuseUnknown(fields);
  RETURN_IF_ERROR(fields.status());
  config.qk_norm = architecture == "qwen3";
  if (architecture == "smollm3") {
    for (int64_t i = 0; i < config.num_layers; ++i) {
      config.no_rope.push_back((i + 1) % kSmolLm3RopeInterval == 0);
    }
  }
  ReadTensorFlags(file, config);
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view architecture, ReadArchitecture(file));
  ASSIGN_OR_RETURN(ModelConfig config, Read(file, std::string(architecture)));
  absl::StatusOr<int64_t> vocab_size = ReadVocabSize(file);
  if (!vocab_size.ok()) return file.Error(vocab_size.status());
  config.vocab_size = *vocab_size;
  auto factors = ReadRopeFactors(file, config.head_dim);
  if (!factors.ok()) return file.Error(factors.status());
  config.rope_factors = *std::move(factors);
  ASSIGN_OR_RETURN(config.eos_ids, ReadGgufEosIds(file, config.vocab_size));
  return config;
}

absl::StatusOr<std::vector<TokenId>> ReadGgufEosIds(const GgufFile& file,
                                                    int64_t num_tokens) {
  std::vector<TokenId> ids;
  for (const char* name :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id"}) {
    const absl::StatusOr<int64_t> id = file.Get<int64_t>(name);
    if (absl::IsNotFound(id.status())) continue;
    RETURN_IF_ERROR(id.status());
    if (*id < 0 || *id >= num_tokens) {
      return file.Error(absl::InvalidArgumentError(
          absl::StrCat(name, " is ", *id, ", not in 0 .. ", num_tokens - 1)));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

absl::StatusOr<bool> HasInterleavedHeads(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view architecture, ReadArchitecture(file));
  return architecture == "llama" || architecture == "smollm3";
}

}  // namespace espalier
