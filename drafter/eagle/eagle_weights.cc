#include "drafter/eagle/eagle_weights.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/json_file.h"
#include "common/model/native/native_weight_loader.h"
#include "common/nn/kernels.h"

namespace espalier::drafter {
namespace {

// The tensor names of a file.
struct Naming {
  std::string prefix;  // "" or "model."
  std::string layer;   // prefix and "midlayer." or "layers.0."
};

// Tensors outside the layers may lack the layers' prefix.
std::string Spelled(const WeightFiles& files, const Naming& naming,
                    const char* name) {
  const std::string prefixed = absl::StrCat(naming.prefix, name);
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
  layer.qk_norm = files.Has(naming.layer + "self_attn.q_norm.weight");
  if (layer.head_dim % nn::kHeadDimUnit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " makes heads of ", layer.head_dim,
                   ", not a multiple of ", nn::kHeadDimUnit));
}

class EagleLoader {
 public:
  EagleLoader(const EagleConfig& config, const Naming& naming,
              NativeWeightLoader& files)
      : config_(config), naming_(naming), files_(files) {}

  absl::Status Load(EagleWeights& weights) {
    const bool eagle1 = config_.mode == EagleMode::kEagle1;
    ASSIGN_OR_RETURN(
        weights.layer,
        LoadLlamaLayerBehindNorm(config_.layer, naming_.layer,
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
    const std::string fc = naming_.prefix + "fc";
    ASSIGN_OR_RETURN(weights.fc,
                     files_.Linear({{fc, hidden()}},
                                   {.inputs = 2 * hidden(),
                                    .has_bias = files_.Has(fc + ".bias")}));
    return absl::OkStatus();
  }

  absl::Status LoadEagle3(EagleWeights& weights) {
    const std::string& prefix = naming_.prefix;
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
                     Norm(naming_.layer + "input_layernorm", hidden()));
    ASSIGN_OR_RETURN(weights.feature_norm,
                     Norm(naming_.layer + "hidden_norm", hidden()));
    ASSIGN_OR_RETURN(weights.output_norm, Norm(prefix + "norm", hidden()));
    return absl::OkStatus();
  }

  const EagleConfig& config_;
  const Naming& naming_;
  NativeWeightLoader& files_;
};

absl::StatusOr<DraftVocabulary> LoadVocabulary(const EagleConfig& config,
                                               const Naming& naming,
                                               const WeightFiles& files,
                                               NativeWeightLoader& loader) {
  const std::string d2t = Spelled(files, naming, "d2t");
  loader.Ignore(d2t);
  loader.Ignore(Spelled(files, naming, "t2d"));  // redundant
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

// Tensors missing in the head come from the target, if the sizes agree.
absl::Status CheckShared(const EagleConfig& config, const char* name) {
  if (config.layer.hidden_size == config.target_hidden_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " is missing; the target's has ",
                   config.target_hidden_size, " columns, the head ",
                   config.layer.hidden_size));
}

// Embedding and output rows: the head's own, or the target's.
class TableLoader {
 public:
  struct Loaders {
    NativeWeightLoader& own;
    NativeWeightLoader& shared;
  };
  TableLoader(const LoadedEagle& head, const HeadTarget& target,
              const Loaders& loaders)
      : head_(head), target_(target), loaders_(loaders) {}

  absl::StatusOr<nn::PackedMatrix> Embedding(const std::string& own) {
    if (loaders_.own.Has(own)) return loaders_.own.Table(own, all());
    RETURN_IF_ERROR(CheckShared(head_.config, "embed_tokens.weight"));
    return loaders_.shared.Table(target_.embedding(), all());
  }

  absl::StatusOr<NativeLinear> OutputRows(const std::string& own) {
    const DraftVocabulary& vocabulary = head_.vocabulary;
    if (loaders_.own.Has(own + ".weight")) {
      return loaders_.own.Linear({{own, vocabulary.size()}},
                                 {.inputs = all().columns});
    }
    RETURN_IF_ERROR(CheckShared(head_.config, "lm_head.weight"));
    return loaders_.shared.Rows(target_.output_rows(), vocabulary.tokens(),
                                all());
  }

 private:
  NativeWeightLoader::TableShape all() const {
    return {.rows = head_.config.layer.vocab_size,
            .columns = head_.config.layer.hidden_size};
  }

  const LoadedEagle& head_;
  const HeadTarget& target_;
  const Loaders loaders_;
};

absl::StatusOr<LoadedEagle> Load(const std::string& folder,
                                 const HeadTarget& target,
                                 const HeadRuntime& runtime) {
  const std::string config_path = folder + "/config.json";
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(config_path));
  ASSIGN_OR_RETURN(const WeightFiles files, WeightFiles::Open(folder));
  ASSIGN_OR_RETURN(const Naming naming, FindNaming(files));
  const EagleMode mode = files.Has(naming.layer + "hidden_norm.weight")
                             ? EagleMode::kEagle3
                             : EagleMode::kEagle1;
  ASSIGN_OR_RETURN(EagleConfig config,
                   ParseEagleConfig(json, config_path, mode, target));
  RETURN_IF_ERROR(FindHeads(files, naming, config.layer));

  auto weights = std::make_unique<EagleWeights>();
  const NativeWeightLoader::Target into = {
      .dtype = runtime.dtype, .arena = weights->arena, .pool = *runtime.pool};
  NativeWeightLoader own(files, into), shared(target.files, into);
  RETURN_IF_ERROR(EagleLoader(config, naming, own).Load(*weights));
  ASSIGN_OR_RETURN(DraftVocabulary vocabulary,
                   LoadVocabulary(config, naming, files, own));
  LoadedEagle head = {.config = std::move(config),
                      .vocabulary = std::move(vocabulary)};
  TableLoader tables(head, target, {own, shared});
  ASSIGN_OR_RETURN(weights->tokens, tables.Embedding(Spelled(
                                        files, naming, "embed_tokens.weight")));
  ASSIGN_OR_RETURN(weights->output_rows,
                   tables.OutputRows(files.Has("lm_head.weight")
                                         ? "lm_head"
                                         : naming.prefix + "lm_head"));
  // Only training reads these.
  for (const char* name : {"verifier_norm.weight", "verifier_lm_head.weight"}) {
    own.Ignore(naming.prefix + name);
  }
  RETURN_IF_ERROR(own.CheckAllRead());
  head.weights = std::move(weights);
  return head;
}

}  // namespace

absl::StatusOr<LoadedEagle> LoadEagle(const std::string& folder,
                                      const HeadTarget& target,
                                      const HeadRuntime& runtime) {
  absl::StatusOr<LoadedEagle> head = Load(folder, target, runtime);
  if (head.ok() || absl::StartsWith(head.status().message(), folder)) {
    return head;
  }
  return absl::Status(head.status().code(),
                      absl::StrCat(folder, ": ", head.status().message()));
}

}  // namespace espalier::drafter
