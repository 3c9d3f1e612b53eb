// Features: hidden states of the target that draft heads read.
#ifndef ESPALIER_COMMON_SPECULATION_FEATURES_H_
#define ESPALIER_COMMON_SPECULATION_FEATURES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// The hidden states that a drafter wants. A tap is a point of the target's
// residual stream, numbered by the layers before it: 0 is the embedding; i is
// the input of layer i, which is the output of layer i - 1 (layers count from
// 0); num_layers is the output of the last layer; NormedTap is that output
// after the final norm, which is what the LM head reads. Formats of draft heads
// number differently: EAGLE's code and vLLM's "input of layer i" is tap i,
// SGLang's and DFlash's "output of layer i" is tap i + 1.
struct FeatureContract {
  std::vector<int32_t> taps = {};  // ascending; empty: no features
  int64_t hidden_size = 0;         // numbers per tap and position

  int64_t width() const {
    return static_cast<int64_t>(taps.size()) * hidden_size;
  }
  friend bool operator==(const FeatureContract&,
                         const FeatureContract&) = default;
};

constexpr int32_t NormedTap(int64_t num_layers) {
  return static_cast<int32_t>(num_layers) + 1;
}

// Most numbers per position, so that one position fits a message.
inline constexpr int64_t kMaxFeatureWidth = int64_t{1} << 19;

// Appends to `out` the columns of `wanted` of rows at `taps`. Both ascend.
// REQUIRES: `taps` has all of `wanted`; rows of taps * hidden numbers.
void AppendTaps(absl::Span<const uint16_t> rows, absl::Span<const int32_t> taps,
                absl::Span<const int32_t> wanted, int64_t hidden,
                std::vector<uint16_t>& out);

// The dimensions of a target, which say what features it has.
struct TargetShape {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;

  // Returns whether the target has all taps of the contract, they ascend, and
  // the width is within kMaxFeatureWidth.
  bool Serves(const FeatureContract& contract) const;
};

// Features of consecutive positions as bf16 bits, row-major. A row is one
// position: its taps, concatenated.
struct FeatureRows {
  int64_t first_position = 0;
  int64_t width = 0;  // numbers per position
  std::vector<uint16_t> data = {};

  int64_t num_rows() const {
    return width == 0 ? 0 : static_cast<int64_t>(data.size()) / width;
  }
  bool empty() const { return data.empty(); }
  // Returns the position after the last row.
  int64_t end_position() const { return first_position + num_rows(); }
  int64_t num_bytes() const {
    return static_cast<int64_t>(data.size() * sizeof(uint16_t));
  }
  // REQUIRES: first_position <= position < end_position().
  absl::Span<const uint16_t> Row(int64_t position) const {
    return absl::MakeConstSpan(data).subspan(
        (position - first_position) * width, width);
  }

  // `count` rows from `position` on. REQUIRES: all of them exist.
  absl::Span<const uint16_t> Rows(int64_t position, int64_t count) const {
    return absl::MakeConstSpan(data).subspan(
        (position - first_position) * width, count * width);
  }

  // Drops the rows from `position` on, or those before it.
  void CutFrom(int64_t position);
  void CutBefore(int64_t position);
  // Appends the part of `rows` from end_position() on. If there is a gap before
  // `rows`, or its width differs, it replaces all rows.
  void Extend(const FeatureRows& rows);

  friend bool operator==(const FeatureRows&, const FeatureRows&) = default;
};

// Most contracts whose features a verification stores.
inline constexpr int64_t kMaxStoreContracts = 64;

// The features that a verification is to return.
struct FeatureRequest {
  std::vector<int32_t> taps = {};  // as in FeatureContract; empty: none
  int64_t first_position = 0;      // the sender has those of earlier positions
  // The verifier keeps them until a request that is not deferred.
  bool deferred = false;
  // Taps of each contract whose features, of all positions that it computes,
  // the verification is to leave in its ring (feature_ring.h), beside those
  // that are returned. A verifier without a ring ignores it.
  std::vector<std::vector<int32_t>> store = {};

  friend bool operator==(const FeatureRequest&,
                         const FeatureRequest&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_FEATURES_H_
