#ifndef ESPALIER_DRAFTER_HEADS_CUDA_CANDIDATES_H_
#define ESPALIER_DRAFTER_HEADS_CUDA_CANDIDATES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/mailbox.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/draft_vocabulary.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// The candidates of CandidateHead from logits on a device: noise, ranking and
// mass are computed there, and only the candidates come to the host. Noise is
// float32 there, so near ties may fall otherwise. One thread.
class CudaCandidates {
 public:
  static constexpr int64_t kMaxQueries = 256;  // of a ranking

  // stride: of a row of logits. `device` must outlive this object.
  // RESOURCE_EXHAUSTED: no room on the device.
  static absl::StatusOr<std::unique_ptr<CudaCandidates>> Make(
      DraftVocabulary vocabulary, int64_t stride, cuda::ComputeDevice& device);

  // Announces a ranking of the `width` (at most cuda::kMaxRanked) best tokens
  // of each query: what the device is told goes into one mailbox, what it
  // answers into the other. RESOURCE_EXHAUSTED: no room on the device.
  absl::Status Describe(absl::Span<const CandidateHead::Query> queries,
                        int64_t width, Mailbox& requests, Mailbox& answers);
  // Returns the place of the logits: [padded queries, stride], the draft
  // vocabulary.
  float* logits() const { return logits_.data(); }
  // Queues the kernels, after those that make the logits.
  void Launch() const;
  // The answers are here. INTERNAL: a logit is not finite.
  absl::StatusOr<std::vector<std::vector<Candidate>>> Take() const;

 private:
  CudaCandidates(DraftVocabulary vocabulary, int64_t stride,
                 cuda::DeviceArray<int32_t> tokens, cuda::ComputeDevice& device)
      : vocabulary_(std::move(vocabulary)),
        stride_(stride),
        tokens_(std::move(tokens)),
        device_(device) {}

  std::vector<Candidate> CandidatesOf(int64_t query) const;

  const DraftVocabulary vocabulary_;
  const int64_t stride_;
  const cuda::DeviceArray<int32_t> tokens_;  // of the vocabulary
  cuda::ComputeDevice& device_;
  cuda::DeviceArray<float> logits_, scores_;
  cuda::DeviceArray<cuda::RankPart> parts_;

  // State of the ranking in progress.
  cuda::LogitBlock block_;
  const cuda::DrawRow* noise_ = nullptr;  // null: all queries are greedy
  int top_k_ = 0;
  Mailbox::Room<cuda::RankResult> results_;
  Mailbox::Room<cuda::LogitOfToken> top_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_CUDA_CANDIDATES_H_
