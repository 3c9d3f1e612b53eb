#ifndef ESPALIER_DRAFTER_HEADS_CANDIDATE_HEAD_H_
#define ESPALIER_DRAFTER_HEADS_CANDIDATE_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/logits/ranked_rows.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/native_weights.h"
#include "common/speculation/sampling_params.h"
#include "drafter/heads/draft_vocabulary.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// The output projection of a draft head, and the candidates that it yields. The
// logits are ranked chunk by chunk while they are in the CPU cache, and never
// stored. One thread.
class CandidateHead {
 public:
  // `rows`: hidden -> the draft vocabulary. logit_softcap: as of ModelConfig.
  CandidateHead(DraftVocabulary vocabulary, NativeLinear rows,
                double logit_softcap = 0);

  // A row of hidden states, and the token that it predicts.
  struct Query {
    SamplingParams sampling;
    int64_t position = 0;  // of that token
  };

  // Returns the `width` likeliest tokens of each row: under sampling those of
  // the largest log p + T g, the scores that the coupled walk compares.
  // log_prob is over the draft vocabulary, unperturbed: see
  // ApplyGumbelCoupling. x: [queries, hidden]. INTERNAL: a logit is not finite.
  absl::StatusOr<std::vector<std::vector<Candidate>>> Rank(
      NativeLayers& layers, const float* x, absl::Span<const Query> queries,
      int64_t width);

 private:
  // Upper bounds of a position's noise, in the order of the draft vocabulary.
  struct Ceilings {
    uint64_t seed = 0;
    int64_t position = 0;
    std::vector<float> values = {};
  };
  RowNoise NoiseOf(const Query& query, const nn::Kernels& kernels);
  absl::Span<const float> CeilingsOf(const Query& query,
                                     const nn::Kernels& kernels);
  void DropOldCeilings(size_t used);

  const DraftVocabulary vocabulary_;
  const NativeLinear rows_;
  const float softcap_;
  // A cache: later rounds need the same positions. Most recently used first.
  std::list<Ceilings> ceilings_;
  const int64_t noise_panels_;       // of the target's vocabulary, as needed
  std::vector<float> all_ceilings_;  // [noise_panels_ * kPanelOutputs]
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_CANDIDATE_HEAD_H_
