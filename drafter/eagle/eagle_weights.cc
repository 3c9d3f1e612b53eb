#include "drafter/eagle/eagle_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/native/native_weight_loader.h"
#include "drafter/eagle/eagle_files.h"

namespace espalier::drafter {
namespace {

class EagleLoader {
 public:
  EagleLoader(const EagleFiles& head, NativeWeightLoader& files)
      : head_(head), config_(head.config), files_(files) {}

  absl::Status Load(EagleWeights& weights) {
    const bool eagle1 = config_.mode == EagleMode::kEagle1;
    ASSIGN_OR_RETURN(
        weights.layer,
        LoadLlamaLayerBehindNorm(config_.layer, /*index=*/0, head_.layer,
                                 eagle1 ? hidden() : 2 * hidden(), files_));
    return eagle1 ? LoadEagle1(weights) : LoadEagle3(weights);
  }

 private:
  int64_t hidden() const { return config_.layer.hidden_size; }

  absl::StatusOr<NativeNorm> Norm(const std::string& name, int64_t size) {
    NativeNorm norm;
    ASSIGN_OR_RETURN(norm.weight, files_.Vector(name + ".weight", size));
    return norm;
  }

  absl::Status LoadEagle1(EagleWeights& weights) {
    const std::string fc = head_.prefix + "fc";
    ASSIGN_OR_RETURN(weights.fc,
                     files_.Linear({{fc, hidden()}},
                                   {.inputs = 2 * hidden(),
                                    .has_bias = files_.Has(fc + ".bias")}));
    return absl::OkStatus();
  }

  absl::Status LoadEagle3(EagleWeights& weights) {
    const std::string& prefix = head_.prefix;
    const int64_t taps = static_cast<int64_t>(config_.taps.size());
    const int64_t width = taps * config_.target_hidden_size;
    for (int64_t i = 0; config_.fc_norm && i < taps; ++i) {
      ASSIGN_OR_RETURN(NativeNorm norm,
                       Norm(absl::StrCat(prefix, "fc_norm.", i),
                            config_.target_hidden_size));
      weights.fc_norms.push_back(std::move(norm));
    }
    if (config_.norm_before_fc) {
      ASSIGN_OR_RETURN(weights.input_norm, Norm(prefix + "input_norm", width));
    }
    ASSIGN_OR_RETURN(
        weights.fc,
        files_.Linear(
            {{prefix + "fc", hidden()}},
            {.inputs = width, .has_bias = files_.Has(prefix + "fc.bias")}));
    ASSIGN_OR_RETURN(weights.embedding_norm,
                     Norm(head_.layer + "input_layernorm", hidden()));
    ASSIGN_OR_RETURN(weights.feature_norm,
                     Norm(head_.layer + "hidden_norm", hidden()));
    ASSIGN_OR_RETURN(weights.output_norm, Norm(prefix + "norm", hidden()));
    return absl::OkStatus();
  }

  const EagleFiles& head_;
  const EagleConfig& config_;
  NativeWeightLoader& files_;
};

// Embedding and output rows: the head's own, or the target's.
class TableLoader {
 public:
  struct Loaders {
    NativeWeightLoader& own;
    NativeWeightLoader& shared;
  };
  TableLoader(const EagleFiles& head, const HeadTarget& target,
              const Loaders& loaders)
      : head_(head), target_(target), loaders_(loaders) {}

  absl::StatusOr<nn::PackedMatrix> Embedding(const std::string& own) {
    if (loaders_.own.Has(own)) return loaders_.own.Table(own, all());
    RETURN_IF_ERROR(head_.CheckShared("embed_tokens.weight"));
    return loaders_.shared.Table(target_.embedding(), all());
  }

  absl::StatusOr<NativeLinear> OutputRows(const std::string& own) {
    const DraftVocabulary& vocabulary = head_.vocabulary;
    if (loaders_.own.Has(own + ".weight")) {
      return loaders_.own.Linear({{own, vocabulary.size()}},
                                 {.inputs = all().columns});
    }
    RETURN_IF_ERROR(head_.CheckShared("lm_head.weight"));
    return loaders_.shared.Rows(target_.output_rows(), vocabulary.tokens(),
                                all());
  }

 private:
  NativeWeightLoader::TableShape all() const {
    return {.rows = head_.config.layer.vocab_size,
            .columns = head_.config.layer.hidden_size};
  }

  const EagleFiles& head_;
  const HeadTarget& target_;
  const Loaders loaders_;
};

absl::StatusOr<LoadedEagle> Load(const std::string& folder,
                                 const HeadTarget& target,
                                 const HeadRuntime& runtime) {
  ASSIGN_OR_RETURN(EagleFiles head,
                   OpenEagle(folder, target, runtime.random_weights));
  auto weights = std::make_unique<EagleWeights>();
  const NativeWeightLoader::Target into = {
      .dtype = runtime.dtype, .arena = weights->arena, .pool = *runtime.pool};
  NativeWeightLoader own(head.files, into), shared(target.files, into);
  for (const std::string& name : head.unread()) own.Ignore(name);
  RETURN_IF_ERROR(EagleLoader(head, own).Load(*weights));
  TableLoader tables(head, target, {own, shared});
  ASSIGN_OR_RETURN(weights->tokens,
                   tables.Embedding(head.Spelled("embed_tokens.weight")));
  ASSIGN_OR_RETURN(weights->output_rows, tables.OutputRows(head.output_rows()));
  RETURN_IF_ERROR(own.CheckAllRead());
  return LoadedEagle{.config = std::move(head.config),
                     .weights = std::move(weights),
                     .vocabulary = std::move(head.vocabulary)};
}

}  // namespace

absl::StatusOr<LoadedEagle> LoadEagle(const std::string& folder,
                                      const HeadTarget& target,
                                      const HeadRuntime& runtime) {
  absl::StatusOr<LoadedEagle> head = Load(folder, target, runtime);
  if (!head.ok()) return NamingFolder(head.status(), folder);
  return head;
}

}  // namespace espalier::drafter
