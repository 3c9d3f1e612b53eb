#include "common/model/files/model_config.h"

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/json/json_fields.h"
#include "common/json/parse_json.h"
#include "common/model/files/architectures/architecture.h"
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

std::string ReadArchitectureName(JsonFields& fields) {
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

absl::StatusOr<ModelConfig> FromJson(const Json& json,
                                     const std::string& source) {
  JsonFields fields(json, source);
  const std::string name = ReadArchitectureName(fields);
  RETURN_IF_ERROR(fields.status());
  const Architecture* const architecture = FindFolderArchitecture(name);
  if (architecture == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        source, ": architecture \"", name,
        "\" is not implemented; known: ", KnownFolderArchitectures()));
  }
  ModelConfig config;
  config.vocab_size = fields.Size("vocab_size");
  architecture->read_folder(fields, config);
  if (fields.Has("quantization_config")) {
    fields.Unimplemented("quantization_config");
  }
  config.eos_ids = ReadEosIds(fields, config.vocab_size);
  RETURN_IF_ERROR(fields.status());
  return config;
}

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

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text,
                                             const std::string& source) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, source));
  return FromJson(json, source);
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> gguf, GgufPathOf(path));
  if (!gguf.has_value()) return ReadFolderConfig(path);
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(*gguf));
  return ReadGgufConfig(file);
}

void KeepLayers(int64_t count, ModelConfig& config) {
  ESPALIER_CHECK(count <= config.num_layers);
  config.num_layers = count;
  config.layers.resize(count);
}

std::vector<double> RotaryFrequencies(const ModelConfig& config,
                                      int32_t table) {
  const RotaryTable& rotary = config.rotary[table];
  std::vector<double> frequencies = ScaledFrequencies(
      rotary.scaling.value_or(RopeScaling()), rotary.theta, config.head_dim);
  for (size_t i = 0; i < rotary.factors.size(); ++i) {
    frequencies[i] /= rotary.factors[i];
  }
  return frequencies;
}

double RotaryScale(const ModelConfig& config, int32_t table) {
  const RotaryTable& rotary = config.rotary[table];
  return rotary.scaling.has_value() ? rotary.scaling->attention_factor : 1;
}

}  // namespace espalier
