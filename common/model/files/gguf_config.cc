#include "common/model/files/gguf_config.h"

#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_fields.h"

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

// Every layer has what the first one has (ReadGgufWeights checks it).
void ReadTensorFlags(const GgufFile& file, ModelConfig& config) {
  const auto has = [&](std::string_view name) {
    return file.tensors().count(name) > 0;
  };
  for (LayerShape& layer : config.layers) {
    layer.attention_bias = has("blk.0.attn_q.bias");
    layer.attention_out_bias = has("blk.0.attn_output.bias");
    layer.mlp_bias = has("blk.0.ffn_up.bias");
  }
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

absl::StatusOr<ModelConfig> Read(const GgufFile& file,
                                 const Architecture& architecture) {
  const std::string prefix = absl::StrCat(architecture.gguf_name, ".");
  const Json json = ScalarsOf(file, prefix);
  GgufFields fields(json, file.path(), prefix);
  ModelConfig config;
  architecture.read_gguf(fields, config);
  RETURN_IF_ERROR(fields.status());
  ReadTensorFlags(file, config);
  return config;
}

}  // namespace

absl::StatusOr<const Architecture*> GgufArchitecture(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view name,
                   file.Get<std::string_view>("general.architecture"));
  const Architecture* const architecture = FindGgufArchitecture(name);
  if (architecture != nullptr) return architecture;
  return file.Error(absl::UnimplementedError(absl::StrCat(
      "general.architecture \"", absl::CHexEscape(std::string(name)),
      "\" is not implemented; known: ", KnownGgufArchitectures())));
}

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  ASSIGN_OR_RETURN(const Architecture* architecture, GgufArchitecture(file));
  ASSIGN_OR_RETURN(ModelConfig config, Read(file, *architecture));
  absl::StatusOr<int64_t> vocab_size = ReadVocabSize(file);
  if (!vocab_size.ok()) return file.Error(vocab_size.status());
  config.vocab_size = *vocab_size;
  auto factors = ReadRopeFactors(file, config.head_dim);
  if (!factors.ok()) return file.Error(factors.status());
  config.rotary.front().factors = *std::move(factors);
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

}  // namespace espalier
