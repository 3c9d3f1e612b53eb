#include "drafter/eagle/eagle_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/json_file.h"
#include "common/model/files/random_weights.h"
#include "common/nn/kernels.h"

namespace espalier::drafter {
namespace {

// The tensor names of a file.
struct Naming {
  std::string prefix;
  std::string layer;
};

std::string SpelledIn(const WeightFiles& files, const std::string& prefix,
                      const char* name) {
  const std::string prefixed = absl::StrCat(prefix, name);
  return files.Has(prefixed) ? prefixed : name;
}

absl::StatusOr<Naming> FindNaming(const WeightFiles& files) {
  for (const char* prefix : {"", "model."}) {
    for (const char* layer : {"midlayer.", "layers.0."}) {
      const Naming naming = {prefix, absl::StrCat(prefix, layer)};
      if (files.Has(naming.layer + "self_attn.q_proj.weight")) return naming;
    }
  }
  return absl::InvalidArgumentError(
      "tensor midlayer.self_attn.q_proj.weight (or layers.0.self_attn...) is "
      "missing: not an EAGLE head");
}

// Corrects the configuration by the tensors' shapes: some files give head_dim
// and are built without it.
absl::Status FindHeads(const WeightFiles& files, const Naming& naming,
                       ModelConfig& layer) {
  const std::string name = naming.layer + "self_attn.q_proj.weight";
  ASSIGN_OR_RETURN(const TensorView q, files.Find(name));
  if (q.shape.size() != 2 || q.shape[0] % layer.num_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", name, " has no rows for ", layer.num_heads, " heads"));
  }
  layer.head_dim = q.shape[0] / layer.num_heads;
  layer.layers.front().head_norm =
      files.Has(naming.layer + "self_attn.q_norm.weight") ? HeadNorm::kEachHead
                                                          : HeadNorm::kNone;
  if (layer.head_dim % nn::kHeadDimUnit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " makes heads of ", layer.head_dim,
                   ", not a multiple of ", nn::kHeadDimUnit));
}

absl::StatusOr<DraftVocabulary> LoadVocabulary(const EagleConfig& config,
                                               const Naming& naming,
                                               const WeightFiles& files) {
  const std::string d2t = SpelledIn(files, naming.prefix, "d2t");
  if (!files.Has(d2t)) {
    if (config.draft_vocab_size == config.layer.vocab_size) {
      return DraftVocabulary::Full(config.layer.vocab_size);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor d2t is missing: draft_vocab_size is ", config.draft_vocab_size,
        ", the target's vocabulary has ", config.layer.vocab_size));
  }
  ASSIGN_OR_RETURN(const TensorView offsets,
                   files.Find(d2t, {config.draft_vocab_size}));
  return DraftVocabulary::FromOffsets(offsets, config.layer.vocab_size);
}

// Returns the tensors of an EAGLE-3 head with its own output rows, as most are
// published.
std::vector<TensorShape> Eagle3Shapes(const EagleConfig& config,
                                      const Naming& naming) {
  const int64_t hidden = config.layer.hidden_size;
  std::vector<TensorShape> shapes =
      LayerShapes(config.layer, /*index=*/0, naming.layer, 2 * hidden);
  shapes.push_back({naming.layer + "input_layernorm.weight", {hidden}});
  shapes.push_back({naming.layer + "hidden_norm.weight", {hidden}});
  shapes.push_back({"fc.weight", {hidden, config.features().width()}});
  shapes.push_back({"norm.weight", {hidden}});
  shapes.push_back({"lm_head.weight", {config.draft_vocab_size, hidden}});
  for (size_t i = 0; config.fc_norm && i < config.taps.size(); ++i) {
    shapes.push_back(
        {absl::StrCat("fc_norm.", i, ".weight"), {config.target_hidden_size}});
  }
  if (config.norm_before_fc) {
    shapes.push_back({"input_norm.weight", {config.features().width()}});
  }
  return shapes;
}

absl::StatusOr<EagleFiles> MakeUpEagle(const std::string& folder,
                                       const HeadTarget& target,
                                       uint64_t seed) {
  const std::string config_path = folder + "/config.json";
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(config_path));
  ASSIGN_OR_RETURN(
      EagleConfig config,
      ParseEagleConfig(json, config_path, EagleMode::kEagle3, target));
  const Naming naming = {.prefix = "", .layer = "midlayer."};
  WeightFiles files = WeightFiles::MakeUp(Eagle3Shapes(config, naming), seed);
  DraftVocabulary vocabulary = DraftVocabulary::Full(config.draft_vocab_size);
  return EagleFiles{.files = std::move(files),
                    .config = std::move(config),
                    .vocabulary = std::move(vocabulary),
                    .prefix = naming.prefix,
                    .layer = naming.layer};
}

}  // namespace

std::string EagleFiles::Spelled(const char* name) const {
  return SpelledIn(files, prefix, name);
}

std::string EagleFiles::output_rows() const {
  return files.Has("lm_head.weight") ? "lm_head" : prefix + "lm_head";
}

std::vector<std::string> EagleFiles::unread() const {
  return {Spelled("d2t"),
          Spelled("t2d"),  // redundant
          // Only training reads these.
          prefix + "verifier_norm.weight", prefix + "verifier_lm_head.weight"};
}

absl::Status EagleFiles::CheckShared(const char* name) const {
  if (config.layer.hidden_size == config.target_hidden_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " is missing; the target's has ",
                   config.target_hidden_size, " columns, the head ",
                   config.layer.hidden_size));
}

absl::StatusOr<EagleFiles> OpenEagle(const std::string& folder,
                                     const HeadTarget& target,
                                     std::optional<uint64_t> random_weights) {
  if (random_weights.has_value()) {
    return MakeUpEagle(folder, target, *random_weights);
  }
  const std::string config_path = folder + "/config.json";
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(config_path));
  ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::Open(folder));
  ASSIGN_OR_RETURN(Naming naming, FindNaming(files));
  const EagleMode mode = files.Has(naming.layer + "hidden_norm.weight")
                             ? EagleMode::kEagle3
                             : EagleMode::kEagle1;
  ASSIGN_OR_RETURN(EagleConfig config,
                   ParseEagleConfig(json, config_path, mode, target));
  RETURN_IF_ERROR(FindHeads(files, naming, config.layer));
  ASSIGN_OR_RETURN(DraftVocabulary vocabulary,
                   LoadVocabulary(config, naming, files));
  return EagleFiles{.files = std::move(files),
                    .config = std::move(config),
                    .vocabulary = std::move(vocabulary),
                    .prefix = std::move(naming.prefix),
                    .layer = std::move(naming.layer)};
}

absl::Status NamingFolder(const absl::Status& status,
                          const std::string& folder) {
  if (status.ok() || absl::StartsWith(status.message(), folder)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": ", status.message()));
}

}  // namespace espalier::drafter
