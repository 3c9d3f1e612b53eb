#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_ROWS_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_ROWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/cuda/device_array.h"
#include "common/model/cuda/mailbox.h"
#include "common/model/cuda/reused_array.h"
#include "common/model/language_model.h"

namespace espalier {

// The logits of a pass, on the device. What their sequences asked for is
// computed there, and brought to the host in few bytes; a row itself only when
// somebody wants it. One thread, the model's.
class CudaRows final : public LogitRows {
 public:
  struct Part {
    int64_t rows = 0;
    std::vector<int64_t> positions = {};  // [rows] of the tokens after the rows
    LogitUse use;
    RankRequest ranks = {};  // beside it; top_k 0: none
  };

  // logits: [rows, stride], not yet there.
  CudaRows(std::shared_ptr<cuda::ComputeDevice> device,
           ReusedArray<float>::Held logits, int64_t vocab, int64_t stride);
  ~CudaRows() override;

  // Adds what a sequence asks of its rows, which follow those before: the
  // requests go to the device in one mailbox, and the answers come in the
  // other, once Launch has queued the kernels. RESOURCE_EXHAUSTED: no room on
  // the device.
  absl::Status Add(const Part& part, Mailbox& requests, Mailbox& answers);
  void Launch();
  // The answers are here: takes them before the mailbox is used again.
  void TakeAnswers();

  float* logits() const { return logits_->data(); }

  int64_t num_rows() const override {
    return static_cast<int64_t>(places_.size());
  }
  absl::Span<const float> Row(int64_t row) const override;
  absl::StatusOr<SampledToken> Draw(int64_t row, const DrawRequest& request,
                                    int64_t position) const override;
  absl::StatusOr<std::optional<SampledToken>> DrawFiltered(
      int64_t row, const FilteredDrawRequest& request,
      int64_t position) const override;
  absl::StatusOr<Ranking> Rank(int64_t row,
                               const RankRequest& request) const override;
  absl::StatusOr<GatheredRow> Gather(int64_t row, const GatherRequest& request,
                                     int64_t index) const override;
  absl::StatusOr<SampledToken> SampleOutside(int64_t row,
                                             const GatherRequest& request,
                                             int64_t index) const override;

 private:
  // The requests and answers of one sequence.
  struct Queued;
  struct Place {
    Queued* part = nullptr;
    int64_t row = 0;  // of the part
  };

  struct Post {
    Mailbox& requests;
    Mailbox& answers;
  };
  absl::Status AddUse(const Part& part, const Post& post, Queued& queued);
  absl::Status AddDraws(const DrawRequest& request,
                        absl::Span<const int64_t> positions,
                        const RowSupports* without, const Post& post,
                        Queued& part);
  absl::Status AddFilteredDraws(const FilteredDrawRequest& request,
                                absl::Span<const int64_t> positions,
                                const Post& post, Queued& part);
  absl::Status AddRanks(const RankRequest& request, const Post& post,
                        Queued& part);
  absl::Status AddGathers(const GatherRequest& request, const Post& post,
                          Queued& part);
  absl::StatusOr<SampledToken> Finish(int64_t row, const DrawRequest& request,
                                      int64_t position) const;
  absl::Status CheckBad(int64_t row, int32_t bad_token) const;
  const Place& At(int64_t row) const;

  const std::shared_ptr<cuda::ComputeDevice> device_;
  const ReusedArray<float>::Held logits_;
  const int64_t vocab_;
  const int64_t stride_;
  std::vector<std::unique_ptr<Queued>> parts_;
  std::vector<Place> places_;
  mutable std::vector<std::unique_ptr<std::vector<float>>> rows_;  // copied
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_ROWS_H_
