#include "drafter/eagle/cuda_eagle_weights.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/cuda_weight_loader.h"
#include "drafter/eagle/eagle_files.h"

namespace espalier::drafter {
namespace {

using Norm = cuda::DeviceArray<float>;

std::string MatrixOf(absl::string_view tensor) {
  return std::string(absl::StripSuffix(tensor, ".weight"));
}

// Reads the tensors of a head, and of its target what the head leaves out.
class CudaEagleLoader {
 public:
  struct Loaders {
    CudaWeightLoader& own;
    CudaWeightLoader& shared;
    CudaWeightType head;  // the type of output rows
  };
  CudaEagleLoader(const EagleFiles& head, const HeadTarget& target,
                  const Loaders& loaders, CudaEagle& eagle)
      : head_(head),
        config_(head.config),
        target_(target),
        own_(loaders.own),
        shared_(loaders.shared),
        head_type_(loaders.head),
        eagle_(eagle) {}

  absl::Status Load() {
    const bool is_eagle1 = config_.mode == EagleMode::kEagle1;
    CudaWeights& weights = eagle_.network.weights;
    ASSIGN_OR_RETURN(
        CudaLayer layer,
        LoadCudaLayerBehindNorm(config_.layer, /*index=*/0, head_.layer,
                                is_eagle1 ? hidden() : 2 * hidden(), own_));
    weights.layers.push_back(std::move(layer));
    RETURN_IF_ERROR(LoadFc(is_eagle1 ? 2 * hidden() : width()));
    if (!is_eagle1) RETURN_IF_ERROR(LoadNorms());
    ASSIGN_OR_RETURN(weights.tokens, Embedding());
    ASSIGN_OR_RETURN(weights.head, OutputRows());
    return own_.CheckAllRead();
  }

 private:
  int64_t hidden() const { return config_.layer.hidden_size; }
  int64_t width() const { return config_.features().width(); }

  absl::Status LoadFc(int64_t inputs) {
    const std::string fc = head_.prefix + "fc";
    ASSIGN_OR_RETURN(eagle_.fc, own_.Linear({{fc, hidden()}}, inputs,
                                            own_.Has(fc + ".bias")));
    return absl::OkStatus();
  }

  absl::StatusOr<Norm> LoadNorm(const std::string& name, int64_t size) {
    return own_.Vectors({{name + ".weight", size}});
  }

  absl::Status LoadNorms() {
    const std::string& prefix = head_.prefix;
    if (config_.fc_norm) {
      std::vector<CudaWeightLoader::Part> norms;
      for (size_t i = 0; i < config_.taps.size(); ++i) {
        norms.push_back({absl::StrCat(prefix, "fc_norm.", i, ".weight"),
                         config_.target_hidden_size});
      }
      ASSIGN_OR_RETURN(eagle_.fc_norms, own_.Vectors(norms));
    }
    if (config_.norm_before_fc) {
      ASSIGN_OR_RETURN(eagle_.input_norm,
                       LoadNorm(prefix + "input_norm", width()));
    }
    ASSIGN_OR_RETURN(eagle_.embedding_norm,
                     LoadNorm(head_.layer + "input_layernorm", hidden()));
    ASSIGN_OR_RETURN(eagle_.feature_norm,
                     LoadNorm(head_.layer + "hidden_norm", hidden()));
    ASSIGN_OR_RETURN(eagle_.network.weights.final_norm,
                     LoadNorm(prefix + "norm", hidden()));
    return absl::OkStatus();
  }

  absl::StatusOr<CudaLinear> Embedding() {
    const int64_t vocab = config_.layer.vocab_size;
    const std::string own = head_.Spelled("embed_tokens.weight");
    if (own_.Has(own)) {
      return own_.Vocabulary({MatrixOf(own), vocab}, hidden(),
                             CudaWeightType::kBf16);
    }
    RETURN_IF_ERROR(head_.CheckShared("embed_tokens.weight"));
    return shared_.Vocabulary({MatrixOf(target_.embedding()), vocab}, hidden(),
                              CudaWeightType::kBf16);
  }

  absl::StatusOr<CudaLinear> OutputRows() {
    const DraftVocabulary& vocabulary = head_.vocabulary;
    const std::string own = head_.output_rows();
    if (own_.Has(own + ".weight")) {
      return own_.Vocabulary({own, vocabulary.size()}, hidden(), head_type_);
    }
    RETURN_IF_ERROR(head_.CheckShared("lm_head.weight"));
    return shared_.Rows({.name = MatrixOf(target_.output_rows()),
                         .rows = config_.layer.vocab_size,
                         .inputs = hidden()},
                        vocabulary.tokens(), head_type_);
  }

  const EagleFiles& head_;
  const EagleConfig& config_;
  const HeadTarget& target_;
  CudaWeightLoader& own_;
  CudaWeightLoader& shared_;
  const CudaWeightType head_type_;
  CudaEagle& eagle_;
};

absl::StatusOr<CudaEagle> LoadOn(std::shared_ptr<cuda::ComputeDevice> device,
                                 const std::string& folder,
                                 const HeadTarget& target,
                                 const HeadRuntime& runtime) {
  ASSIGN_OR_RETURN(EagleFiles head,
                   OpenEagle(folder, target, runtime.random_weights));
  RETURN_IF_ERROR(CheckCudaCovers(head.config.layer));
  CudaEagle eagle = {
      .config = head.config,
      .network = {.device = device, .config = head.config.layer}};
  {
    const CudaWeightType type = CudaWeightTypeOf(runtime.dtype);
    CudaWeightLoader own(head.files, *device, *runtime.pool, type);
    CudaWeightLoader shared(target.files, *device, *runtime.pool, type);
    for (const std::string& name : head.unread()) own.Ignore(name);
    RETURN_IF_ERROR(
        CudaEagleLoader(head, target, {own, shared, type}, eagle).Load());
    RETURN_IF_ERROR(device->Wait(device->Record()));
  }
  RETURN_IF_ERROR(eagle.network.Finish(std::move(head.vocabulary),
                                       target.config.max_positions,
                                       DeviceRoom(runtime, head.config.layer)));
  return eagle;
}

}  // namespace

absl::StatusOr<CudaEagle> LoadCudaEagle(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device) {
  absl::StatusOr<CudaEagle> eagle =
      LoadOn(std::move(device), folder, target, runtime);
  if (!eagle.ok()) return NamingFolder(eagle.status(), folder);
  return eagle;
}

}  // namespace espalier::drafter
