#include "drafter/lm/lm_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
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
                  parts.weights->head, config_.logit_softcap),
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

absl::StatusOr<LmFiles> OpenLm(const LmOptions& options,
                               std::optional<uint64_t> random_weights) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(options.folder));
  if (options.layers > config.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.layers, " layers are asked for: ", options.folder,
                     " has ", config.num_layers));
  }
  if (options.layers > 0) KeepLayers(options.layers, config);
  ASSIGN_OR_RETURN(WeightFiles weights,
                   WeightFiles::Open(options.folder, random_weights));
  const int64_t tokens = std::min(config.vocab_size, options.target_vocab);
  for (const char* table : {"model.embed_tokens.weight", "lm_head.weight",
                            "wte.weight", "transformer.wte.weight"}) {
    weights.CutRows(table, config.vocab_size, tokens);
  }
  config.vocab_size = tokens;
  return LmFiles{.config = std::move(config), .weights = std::move(weights)};
}

absl::StatusOr<LmModel::Parts> LoadLm(const LmOptions& options,
                                      HeadRuntime runtime) {
  ASSIGN_OR_RETURN(LmFiles files, OpenLm(options, runtime.random_weights));
  ModelConfig& config = files.config;
  if (config.head_dim % nn::kHeadDimUnit != 0) {
    return absl::UnimplementedError(
        absl::StrCat(options.folder, ": head_dim ", config.head_dim,
                     " is not a multiple of ", nn::kHeadDimUnit));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<const NativeWeights> weights,
      LoadNativeWeights(config, files.weights, runtime.dtype, *runtime.pool));
  return LmModel::Parts{.config = std::move(config),
                        .weights = std::move(weights),
                        .runtime = std::move(runtime),
                        .kv_pool_tokens = options.kv_tokens};
}

}  // namespace espalier::drafter
