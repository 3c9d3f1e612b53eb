#ifndef ESPALIER_COMMON_MODEL_NATIVE_TAPPED_ROWS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_TAPPED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace espalier {

// The hidden states that a pass takes of one sequence's rows, as bf16, until
// Keep copies those of the kept rows. One thread.
class TappedRows {
 public:
  // Room for the rows of the next pass, at ascending points (FeatureContract);
  // what was held is lost.
  void Start(int64_t rows, absl::Span<const int32_t> points, int64_t hidden);
  void Clear() { Start(0, {}, 0); }

  bool Wants(int32_t point) const;
  // x: [rows, hidden] at one point of the pass. Nothing if that is not wanted.
  void Take(int32_t point, const float* x);

  // features: [path, points, hidden] or empty. INVALID_ARGUMENT: it is neither.
  // REQUIRES: the rows of `path` exist.
  absl::Status Copy(absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) const;

 private:
  int64_t width() const {
    return static_cast<int64_t>(points_.size()) * hidden_;
  }

  int64_t rows_ = 0;
  int64_t hidden_ = 0;
  std::vector<int32_t> points_;
  std::unique_ptr<uint16_t[]> states_;  // [rows, points, hidden]
};

// INVALID_ARGUMENT unless `room`, of a span for features, is 0 or what `rows`
// rows of `width` numbers take.
absl::Status CheckFeatureRoom(size_t room, size_t rows, int64_t width);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_TAPPED_ROWS_H_
