#include "common/model/files/layer_windows.h"

#include "absl/strings/str_cat.h"
#include "common/json/parse_json.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kQwenFullLayers = 28;

// Returns sliding_window; nullopt: it is null.
std::optional<int64_t> ReadWindow(JsonFields& fields) {
  constexpr const char* kName = "sliding_window";
  if (fields.json().contains(kName) && !fields.Has(kName)) return std::nullopt;
  return fields.Size(kName, kDefaultWindow);
}

}  // namespace

void SetWindow(int64_t layer, int64_t window, ModelConfig& config) {
  config.layers[layer].window = window < config.max_positions ? window : 0;
}

std::optional<std::vector<bool>> ReadLayerTypes(JsonFields& fields,
                                                const ModelConfig& config) {
  if (!fields.Has("layer_types")) return std::nullopt;
  const Json& types = fields.json()["layer_types"];
  if (!types.is_array() || std::ssize(types) < config.num_layers) {
    fields.Fail("layer_types", absl::StrCat("must be a list of ",
                                            config.num_layers, " names"));
    return std::nullopt;
  }
  std::vector<bool> sliding;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    sliding.push_back(types[i] == "sliding_attention");
    if (!sliding.back() && types[i] != "full_attention") {
      fields.Unimplemented(absl::StrCat("layer_types: ", ToText(types[i])));
    }
  }
  return sliding;
}

void ReadCommonWindow(JsonFields& fields, ModelConfig& config) {
  const std::optional<int64_t> window = ReadWindow(fields);
  if (!window.has_value()) return;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    SetWindow(i, *window, config);
  }
}

void ReadQwenWindows(JsonFields& fields, ModelConfig& config) {
  if (!fields.Flag("use_sliding_window", false)) {
    CheckFullAttention(fields);
    return;
  }
  const std::optional<int64_t> window = ReadWindow(fields);
  if (!window.has_value()) return;
  const bool no_full = fields.json().value("max_window_layers", Json()) == 0;
  const int64_t full =
      no_full ? 0 : fields.Size("max_window_layers", kQwenFullLayers);
  const auto types = ReadLayerTypes(fields, config);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (types.has_value() ? (*types)[i] : i >= full) {
      SetWindow(i, *window, config);
    }
  }
}

std::vector<bool> ReadHeadWindows(JsonFields& fields, ModelConfig& config) {
  const std::vector<bool> none(config.num_layers, false);
  const std::vector<bool> sliding =
      ReadLayerTypes(fields, config).value_or(none);
  if (sliding == none) {
    CheckFullAttention(fields);
    return none;
  }
  if (!fields.Flag("use_sliding_window", true)) {
    fields.Unimplemented("sliding layer_types beside use_sliding_window false");
  }
  const int64_t window = fields.Size("sliding_window");
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (sliding[i]) SetWindow(i, window, config);
  }
  return sliding;
}

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
      fields.Unimplemented(absl::StrCat("layer_types: ", ToText(type)));
    }
  }
}

}  // namespace espalier
