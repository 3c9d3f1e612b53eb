#include "drafter/dflash/dflash_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/json/json_fields.h"
#include "common/model/files/json_file.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"
#include "common/nn/kernels.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kMaxBlockSize = 256;

constexpr std::array<std::string_view, 4> kBlockFields = {
    "block_size", "causal_head", "mask_token_id", "target_layer_ids"};

// Fails unless `have` is what the target has.
void ExpectTargets(JsonFields& fields, const char* name, int64_t have,
                   int64_t wanted) {
  if (fields.status().ok() && have != wanted) {
    fields.Fail(name, absl::StrCat("is ", have, ", the target's is ", wanted));
  }
}

void ReadArchitecture(JsonFields& fields) {
  const nlohmann::json expected = nlohmann::json::array({"DFlashDraftModel"});
  if (!fields.Has("architectures") ||
      fields.json()["architectures"] != expected) {
    fields.Fail("architectures", "must be [\"DFlashDraftModel\"]");
  }
}

// Options of later checkpoints, accepted only where absent or without effect.
void RefuseUnknown(JsonFields& fields) {
  for (const char* name : {"input_embedding_scale", "output_multiplier"}) {
    if (fields.Positive(name, 1.0) != 1.0) fields.Unimplemented(name);
  }
  if (fields.Has("final_logit_softcapping")) {
    fields.Unimplemented("final_logit_softcapping");
  }
  if (fields.Has("quantization_config")) {
    fields.Unimplemented("quantization_config");
  }
}

// Where the file does not say whether rows of a block see later ones, those of
// layers with a window do not.
void ReadSight(JsonFields& fields, DflashConfig& config) {
  const std::vector<bool> sliding = ReadHeadWindows(fields, config.layers);
  const bool says_causal = fields.Has("is_causal") ||
                           fields.Object("dflash_config").Has("causal_head");
  for (size_t i = 0; i < sliding.size(); ++i) {
    config.layers.layers[i].sees_back_only = sliding[i] && !says_causal;
  }
}

void ReadLayers(JsonFields& fields, DflashConfig& config) {
  ReadLlamaFields(fields, config.layers);
  for (LayerShape& layer : config.layers.layers) {
    layer.head_norm = HeadNorm::kEachHead;
  }
  const LayerShape& layer = config.layers.layers.front();
  if (layer.attention_bias) fields.Unimplemented("attention_bias true");
  if (layer.mlp_bias) fields.Unimplemented("mlp_bias true");
  if (layer.activation != Activation::kSilu) {
    fields.Unimplemented("hidden_act but silu");
  }
  ReadSight(fields, config);
  if (config.layers.head_dim % nn::kHeadDimUnit != 0) {
    fields.Fail("head_dim",
                absl::StrCat("is ", config.layers.head_dim,
                             ", not a multiple of ", nn::kHeadDimUnit));
  }
}

// Returns the default without target_layer_ids: layers from 1 to the third
// last, evenly spread, halves rounded to even.
std::vector<int32_t> EvenlySpread(int64_t layers, int64_t target_layers) {
  if (layers == 1) return {static_cast<int32_t>(target_layers / 2)};
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < layers; ++i) {
    const double step = static_cast<double>(target_layers - 4) /
                        static_cast<double>(layers - 1);
    ids.push_back(static_cast<int32_t>(
        std::nearbyint(1 + static_cast<double>(i) * step)));
  }
  return ids;
}

// The file counts outputs of layers; a tap counts inputs.
void ReadTaps(const HeadTarget& target, JsonFields& block,
              DflashConfig& config) {
  const int64_t target_layers = target.config.num_layers;
  std::vector<int32_t> ids = block.Indices("target_layer_ids");
  if (!block.Has("target_layer_ids")) {
    ids = EvenlySpread(config.layers.num_layers, target_layers);
  }
  const bool ascending =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) ==
      ids.end();
  if (ids.empty() || !ascending || ids.front() < 0 ||
      ids.back() >= target_layers) {
    block.Fail(
        "target_layer_ids",
        absl::StrCat("[", absl::StrJoin(ids, ", "),
                     "] must be ascending layers of 0 .. ", target_layers - 1));
    return;
  }
  for (int32_t id : ids) config.taps.push_back(id + 1);
  if (config.features().width() > kMaxFeatureWidth) {
    block.Fail("target_layer_ids",
               absl::StrCat("are ", config.features().width(),
                            " numbers a token, limit ", kMaxFeatureWidth));
  }
}

void ReadBlock(const HeadTarget& target, JsonFields& fields,
               DflashConfig& config) {
  JsonFields block = fields.Object("dflash_config");
  for (const auto& [name, value] : block.json().items()) {
    if (std::find(kBlockFields.begin(), kBlockFields.end(), name) ==
        kBlockFields.end()) {
      block.Unimplemented(name);
    }
  }
  // Newer files have it in this object.
  JsonFields& sized = block.Has("block_size") ? block : fields;
  config.block_size = sized.Size("block_size");
  if (config.block_size < 2 || config.block_size > kMaxBlockSize) {
    sized.Fail("block_size",
               absl::StrCat("must be an integer of 2 .. ", kMaxBlockSize));
  }
  config.causal = block.Flag("causal_head", fields.Flag("is_causal", false));
  for (const LayerShape& layer : config.layers.layers) {
    if (layer.window == 0 || layer.window >= config.block_size) continue;
    fields.Fail("sliding_window",
                absl::StrCat("is ", layer.window, ", below the block's ",
                             config.block_size));
  }
  const int64_t vocab_size = target.config.vocab_size;
  const nlohmann::json& mask =
      block.json().value("mask_token_id", nlohmann::json());
  if (!mask.is_number_unsigned() ||
      mask.get<uint64_t>() >= static_cast<uint64_t>(vocab_size)) {
    block.Fail("mask_token_id",
               absl::StrCat("must be an integer of 0 .. ", vocab_size - 1));
  } else {
    config.mask_token = mask.get<TokenId>();
  }
  ReadTaps(target, block, config);
  fields.Adopt(block.status());
}

}  // namespace

absl::StatusOr<DflashConfig> ReadDflashConfig(const std::string& folder,
                                              const HeadTarget& target) {
  const std::string path = absl::StrCat(folder, "/config.json");
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  JsonFields fields(json, path);
  DflashConfig config;
  ReadArchitecture(fields);
  RefuseUnknown(fields);
  CheckMadeFor(target, fields.Size("vocab_size"), fields);
  ReadLayers(fields, config);
  config.layers.vocab_size = target.config.vocab_size;
  ExpectTargets(fields, "hidden_size", config.layers.hidden_size,
                target.config.hidden_size);
  ExpectTargets(fields, "num_target_layers",
                fields.Size("num_target_layers", target.config.num_layers),
                target.config.num_layers);
  ReadBlock(target, fields, config);
  config.draft_vocab_size =
      fields.Size("draft_vocab_size", target.config.vocab_size);
  if (config.draft_vocab_size > target.config.vocab_size) {
    fields.Fail("draft_vocab_size",
                absl::StrCat("is ", config.draft_vocab_size, ", limit ",
                             target.config.vocab_size));
  }
  RETURN_IF_ERROR(fields.status());
  return config;
}

}  // namespace espalier::drafter
