#include "drafter/dflash/dflash_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/native/native_weight_loader.h"

namespace espalier::drafter {
namespace {

absl::Status LoadBlockLayers(const DflashConfig& config,
                             const std::string& prefix,
                             NativeWeightLoader& loader,
                             DflashWeights& weights) {
  const int64_t hidden = config.layers.hidden_size;
  ASSIGN_OR_RETURN(weights.fc,
                   loader.Linear({{prefix + "fc", hidden}},
                                 {.inputs = config.features().width()}));
  ASSIGN_OR_RETURN(weights.context_norm.weight,
                   loader.Vector(prefix + "hidden_norm.weight", hidden));
  for (int64_t i = 0; i < config.layers.num_layers; ++i) {
    const std::string layer = absl::StrCat(prefix, "layers.", i, ".");
    ASSIGN_OR_RETURN(weights.layers.emplace_back(),
                     LoadLlamaLayer(config.layers, i, layer, loader));
  }
  ASSIGN_OR_RETURN(weights.final_norm.weight,
                   loader.Vector(prefix + "norm.weight", hidden));
  return absl::OkStatus();
}

// Loads the embedding of any token, and the head's rows of the draft
// vocabulary.
absl::Status LoadTargetRows(const HeadTarget& target,
                            NativeWeightLoader& loader,
                            DflashWeights& weights) {
  const NativeWeightLoader::TableShape shape = {
      .rows = target.config.vocab_size, .columns = target.config.hidden_size};
  ASSIGN_OR_RETURN(weights.embeddings, loader.Table(target.embedding(), shape));
  if (weights.vocabulary.size() < shape.rows) {
    ASSIGN_OR_RETURN(
        weights.output_rows,
        loader.Rows(target.output_rows(), weights.vocabulary.tokens(), shape));
  } else if (target.config.tied_head) {
    weights.output_rows.matrix = weights.embeddings;
  } else {
    ASSIGN_OR_RETURN(weights.output_rows.matrix,
                     loader.Table(target.output_rows(), shape));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightFiles> OpenDflash(const std::string& folder,
                                       const DflashConfig& config,
                                       std::optional<uint64_t> random_weights) {
  if (!random_weights.has_value()) return WeightFiles::Open(folder);
  if (config.draft_vocab_size < config.layers.vocab_size) {
    return absl::UnimplementedError(
        "random weights for a draft vocabulary that is not the target's");
  }
  const int64_t hidden = config.layers.hidden_size;
  std::vector<TensorShape> shapes = {
      {"fc.weight", {hidden, config.features().width()}},
      {"hidden_norm.weight", {hidden}},
      {"norm.weight", {hidden}}};
  for (int64_t i = 0; i < config.layers.num_layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    shapes.push_back({layer + "input_layernorm.weight", {hidden}});
    for (TensorShape& tensor : LayerShapes(config.layers, i, layer, hidden)) {
      shapes.push_back(std::move(tensor));
    }
  }
  return WeightFiles::MakeUp(shapes, *random_weights);
}

absl::StatusOr<DraftVocabulary> LoadDflashVocabulary(const DflashConfig& config,
                                                     const WeightFiles& files) {
  const int64_t target_size = config.layers.vocab_size;
  if (config.draft_vocab_size == target_size) {
    return DraftVocabulary::Full(target_size);
  }
  ASSIGN_OR_RETURN(const TensorView d2t,
                   files.Find("d2t", {config.draft_vocab_size}));
  return DraftVocabulary::FromOffsets(d2t, target_size);
}

absl::StatusOr<std::unique_ptr<const DflashWeights>> LoadDflashWeights(
    const WeightFiles& files, const DflashConfig& config,
    const HeadTarget& target, ComputeDType dtype, nn::ThreadPool& pool) {
  auto weights = std::make_unique<DflashWeights>();
  const NativeWeightLoader::Target packed = {
      .dtype = dtype, .arena = weights->arena, .pool = pool};
  NativeWeightLoader loader(files, packed);
  const std::string prefix = loader.Has("model.fc.weight") ? "model." : "";
  RETURN_IF_ERROR(LoadBlockLayers(config, prefix, loader, *weights));
  ASSIGN_OR_RETURN(weights->vocabulary, LoadDflashVocabulary(config, files));
  if (weights->vocabulary.size() < config.layers.vocab_size) {
    loader.Ignore("d2t");
  }
  RETURN_IF_ERROR(loader.CheckAllRead());

  NativeWeightLoader target_loader(target.files, packed);
  RETURN_IF_ERROR(LoadTargetRows(target, target_loader, *weights));
  return weights;
}

}  // namespace espalier::drafter
