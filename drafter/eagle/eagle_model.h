#ifndef ESPALIER_DRAFTER_EAGLE_EAGLE_MODEL_H_
#define ESPALIER_DRAFTER_EAGLE_EAGLE_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/native_pass.h"
#include "drafter/eagle/eagle_weights.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/native_row_model.h"

namespace espalier::drafter {

// The forward pass of an EAGLE head. A row pairs a token with the feature of
// the position before it, and its output predicts the token that follows. The
// feature comes from the target where that has run; otherwise it is the output
// of the row's parent. Row p of a sequence, which pairs position p with the
// token at p + 1, has the rotary position p. One thread.
class EagleModel final : public NativeRowModel {
 public:
  EagleModel(LoadedEagle head, HeadRuntime runtime, int64_t kv_pool_tokens);

  const EagleConfig& config() const { return config_; }

 private:
  // states: [rows, taps, target hidden]
  void Fuse(absl::Span<const uint16_t> states,
            std::vector<float>& features) override;
  // The outputs are the features of the rows' children.
  void RunRows(NativePass& pass, std::vector<float>& features,
               absl::Span<float> outputs) override;
  absl::StatusOr<std::vector<std::vector<Candidate>>> RankOutputs(
      const float* outputs, absl::Span<const CandidateHead::Query> queries,
      int64_t width) override;

  void Enter(const std::vector<TokenId>& tokens);
  void EnterEagle1(int64_t rows);
  void EnterEagle3(int64_t rows);
  void NormTaps(int64_t rows, std::vector<float>& states);

  const EagleConfig config_;
  const std::unique_ptr<const EagleWeights> weights_;
  const HeadRuntime runtime_;
  NativeLayers layers_;
  CandidateHead candidates_;

  // Room for the pass in progress, [rows, hidden] unless it says otherwise.
  std::vector<float> embeddings_;
  std::vector<float> features_;
  std::vector<float> input_;  // [rows, inputs of the layer]
  std::vector<float> x_;      // residual stream
  std::vector<float> normed_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_EAGLE_MODEL_H_
