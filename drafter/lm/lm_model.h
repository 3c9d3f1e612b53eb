#ifndef ESPALIER_DRAFTER_LM_LM_MODEL_H_
#define ESPALIER_DRAFTER_LM_LM_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"
#include "common/model/native/native_decoder.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/native_row_model.h"

namespace espalier::drafter {

// A whole language model, or its first layers under its own final norm and
// output rows ("early exit"), used as a drafter. Row p of a sequence is its
// token p. One thread.
class LmModel final : public NativeRowModel {
 public:
  struct Parts {
    ModelConfig config;  // with as many layers as there are weights for
    std::unique_ptr<const NativeWeights> weights;
    HeadRuntime runtime;
    int64_t kv_pool_tokens = 0;
  };
  explicit LmModel(Parts parts);

 private:
  // No states are read.
  void Fuse(absl::Span<const uint16_t> /*states*/,
            std::vector<float>& /*features*/) override {}
  void RunRows(NativePass& pass, std::vector<float>& features,
               absl::Span<float> outputs) override;
  absl::StatusOr<std::vector<std::vector<Candidate>>> RankOutputs(
      const float* outputs, absl::Span<const CandidateHead::Query> queries,
      int64_t width) override;

  const ModelConfig config_;
  CandidateHead candidates_;
  NativeDecoder decoder_;
};

struct LmOptions {
  std::string folder;     // Hugging Face's layout
  int64_t layers = 0;     // the first ones; 0: all
  int64_t kv_tokens = 0;  // of the K/V of all sequences
  // The size of the target's vocabulary. Tables of one tokenizer are padded to
  // different sizes: the model drafts and reads only tokens that both have.
  int64_t target_vocab = 0;
};

// A model's configuration and weights.
struct LmFiles {
  ModelConfig config;  // of the wanted layers and tokens
  WeightFiles weights;
};

// INVALID_ARGUMENT: it has fewer layers. Errors name the file.
absl::StatusOr<LmFiles> OpenLm(const LmOptions& options,
                               std::optional<uint64_t> random_weights);

// A model on the CPU or on a GPU.
struct LoadedLm {
  std::unique_ptr<RowModel> model = nullptr;
  int64_t max_positions = 0;  // of a sequence with its tree
  int64_t vocab_size = 0;     // tokens that it reads and drafts
};

// Errors name the file.
absl::StatusOr<LmModel::Parts> LoadLm(const LmOptions& options,
                                      HeadRuntime runtime);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_LM_LM_MODEL_H_
