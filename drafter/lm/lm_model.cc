#include "drafter/lm/lm_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/weight_files.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/native_weights.h"
#include "drafter/heads/draft_vocabulary.h"

namespace espalier::drafter {

LmModel::LmModel(Parts parts)
    : NativeRowModel(KvPageShape::Of(parts.config), *parts.runtime.kernels,
                     parts.runtime.Room(KvPageShape::Of(parts.config),
                                        parts.kv_pool_tokens),
                     parts.config.hidden_size),
      config_(parts.config),
      candidates_(DraftVocabulary::Full(config_.vocab_size),
                  parts.weights->head),
      decoder_({.config = config_,
                .weights = std::move(parts.weights),
                .kernels = parts.runtime.kernels,
                .operand = parts.runtime.layers().operand,
                .pool = std::move(parts.runtime.pool)}) {}

void LmModel::RunRows(NativePass& pass, std::vector<float>& /*features*/,
                      absl::Span<float> outputs) {
  for (NativePass::Sequence& part : pass.sequences) {
    part.outputs = outputs.subspan(part.first_row * hidden_size(),
                                   part.rows() * hidden_size());
  }
  decoder_.Run(pass);
}

absl::StatusOr<std::vector<std::vector<Candidate>>> LmModel::RankOutputs(
    const float* outputs, absl::Span<const CandidateHead::Query> queries,
    int64_t width) {
  return candidates_.Rank(decoder_.layers(), outputs, queries, width);
}

absl::StatusOr<ModelConfig> ReadLmConfig(const LmOptions& options) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(options.folder));
  if (options.layers > config.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.layers, " layers are asked for: ", options.folder,
                     " has ", config.num_layers));
  }
  if (options.layers > 0) config.num_layers = options.layers;
  return config;
}

absl::StatusOr<LmModel::Parts> LoadLm(const LmOptions& options,
                                      HeadRuntime runtime) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadLmConfig(options));
  if (config.head_dim % nn::kHeadDimUnit != 0) {
    return absl::UnimplementedError(
        absl::StrCat(options.folder, ": head_dim ", config.head_dim,
                     " is not a multiple of ", nn::kHeadDimUnit));
  }
  ASSIGN_OR_RETURN(const WeightFiles files,
                   WeightFiles::Open(options.folder, runtime.random_weights));
  ASSIGN_OR_RETURN(
      std::unique_ptr<const NativeWeights> weights,
      LoadNativeWeights(config, files, runtime.dtype, *runtime.pool));
  return LmModel::Parts{.config = std::move(config),
                        .weights = std::move(weights),
                        .runtime = std::move(runtime),
                        .kv_pool_tokens = options.kv_tokens};
}

}  // namespace espalier::drafter
