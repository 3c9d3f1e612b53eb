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

// What would change the result and is not implemented.
void RefuseUnknown(GgufFields& fields) {
  fields.Refuse("rope.scaling.type", "none");
  fields.Refuse("rope.scaling.factor", 1.0);
  fields.Refuse("rope.scale_linear", 1.0);
  fields.Refuse("expert_count", 0);
  fields.Refuse("attention.sliding_window", 0);
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
  for (std::string_view known : {"llama", "qwen2", "qwen3"}) {
    if (name == known) return name;
  }
  return file.Error(absl::UnimplementedError(absl::StrCat(
      "general.architecture \"", absl::CHexEscape(std::string(name)),
      "\" is not implemented; known: llama, qwen2, qwen3")));
}

absl::Status CheckWhole(const GgufFile& file) {
  const auto parts = file.Get<int64_t>("split.count");
  if (!parts.ok() || *parts <= 1) return absl::OkStatus();
  return file.Error(absl::UnimplementedError(
      absl::StrCat("split.count is ", *parts,
                   ": a model in several files is not implemented; join them "
                   "(llama-gguf-split --merge)")));
}

absl::StatusOr<ModelConfig> Read(const GgufFile& file,
                                 const std::string& architecture) {
  const std::string prefix = architecture + ".";
  const Json json = ScalarsOf(file, prefix);
  GgufFields fields(json, file.path(), prefix);
  ModelConfig config;
  ReadSizes(fields, config);
  RefuseUnknown(fields);
  RETURN_IF_ERROR(fields.status());
  config.qk_norm = architecture == "qwen3";
  ReadTensorFlags(file, config);
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view architecture, ReadArchitecture(file));
  RETURN_IF_ERROR(CheckWhole(file));
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
  return architecture == "llama";
}

}  // namespace espalier
