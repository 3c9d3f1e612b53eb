#include "drafter/eagle/eagle_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier::drafter {
namespace {

// Reads the taps, converted from the counting of the file's family; see
// FeatureContract. None: the file does not list them.
std::vector<int32_t> ReadTaps(JsonFields& fields) {
  constexpr auto kName = "eagle_aux_hidden_state_layer_ids";
  if (fields.Has(kName)) return fields.Indices(kName);  // inputs, as ours
  JsonFields sglang = fields.Object("eagle_config");
  std::vector<int32_t> taps = sglang.Indices(kName);
  for (int32_t& tap : taps) ++tap;  // outputs
  fields.Adopt(sglang.status());
  return taps;
}

void CheckTaps(const EagleConfig& config, int64_t num_layers,
               JsonFields& fields) {
  if (std::is_sorted(config.taps.begin(), config.taps.end(),
                     std::less_equal<>()) &&
      config.taps.back() <= num_layers) {
    return;
  }
  fields.Fail("eagle_aux_hidden_state_layer_ids",
              absl::StrCat("name the inputs of the layers ",
                           absl::StrJoin(config.taps, ", "),
                           "; they must ascend to at most ", num_layers));
}

void ReadEagle3(JsonFields& fields, const HeadTarget& target,
                EagleConfig& config) {
  const int32_t layers = static_cast<int32_t>(target.config.num_layers);
  config.taps = ReadTaps(fields);
  if (config.taps.empty()) config.taps = {2, layers / 2, layers - 3};
  CheckTaps(config, layers, fields);
  config.fc_norm = fields.Flag("fc_norm", false);
  config.norm_before_fc = fields.Flag("norm_before_fc", false);
  config.norm_before_residual = fields.Flag("norm_before_residual", false);
  config.norm_output = fields.Flag("norm_output", false);
  if (config.fc_norm && config.norm_before_fc) {
    fields.Fail("fc_norm", "excludes norm_before_fc");
  }
}

void ReadSizes(JsonFields& fields, EagleConfig& config) {
  ReadLlamaFields(fields, config.layer);
  ReadHeadWindows(fields, config.layer);
  config.layer.vocab_size = fields.Size("vocab_size");
}

// speculators keeps the sizes in an object of their own.
void ReadLayer(JsonFields& fields, EagleConfig& config) {
  constexpr auto kOwn = "transformer_layer_config";
  if (!fields.Has(kOwn)) return ReadSizes(fields, config);
  JsonFields own = fields.Object(kOwn);
  ReadSizes(own, config);
  fields.Adopt(own.status());
}

}  // namespace

absl::StatusOr<EagleConfig> ParseEagleConfig(const nlohmann::json& json,
                                             const std::string& source,
                                             EagleMode mode,
                                             const HeadTarget& target) {
  JsonFields fields(json, source);
  EagleConfig config;
  config.mode = mode;
  ReadLayer(fields, config);
  CheckMadeFor(target, config.layer.vocab_size, fields);
  if (config.layer.num_layers != 1) {
    fields.Unimplemented(absl::StrCat("num_hidden_layers ",
                                      config.layer.num_layers,
                                      ": a head of more than one layer"));
  }
  if (config.layer.layers.front().activation != Activation::kSilu) {
    fields.Unimplemented("a hidden_act but silu");
  }
  config.target_hidden_size =
      fields.Size("target_hidden_size", config.layer.hidden_size);
  if (config.target_hidden_size != target.config.hidden_size) {
    fields.Fail(
        fields.Has("target_hidden_size") ? "target_hidden_size" : "hidden_size",
        absl::StrCat("is ", config.target_hidden_size, ", the target's is ",
                     target.config.hidden_size));
  }
  config.draft_vocab_size =
      fields.Size("draft_vocab_size", config.layer.vocab_size);
  if (mode == EagleMode::kEagle3) {
    ReadEagle3(fields, target, config);
  } else {
    config.taps = {NormedTap(target.config.num_layers)};
  }
  RETURN_IF_ERROR(fields.status());
  return config;
}

}  // namespace espalier::drafter
