// Hidden states of the target, which draft heads read ("features").
#ifndef ESPALIER_COMMON_SPEC_FEATURES_H_
#define ESPALIER_COMMON_SPEC_FEATURES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// The target's points that a drafter wants, counted by the layers before them:
// 0 is the embedding, i the residual stream that enters layer i (layers count
// from 0; so it is the output of layer i - 1), num_layers the output of the
// last layer, and NormedTap the same behind the final norm, which is what the
// head reads. Formats of draft heads count differently: what EAGLE's code and
// vLLM call the input of layer i is i here, what SGLang and DFlash call the
// output of layer i is i + 1.
struct FeatureContract {
  std::vector<int32_t> taps;  // ascending; empty: wants none
  int64_t hidden_size = 0;    // numbers per tap and position

  int64_t width() const {
    return static_cast<int64_t>(taps.size()) * hidden_size;
  }
  friend bool operator==(const FeatureContract&,
                         const FeatureContract&) = default;
};

constexpr int32_t NormedTap(int64_t num_layers) {
  return static_cast<int32_t>(num_layers) + 1;
}

// Numbers of a position, at most: one position fits a message.
inline constexpr int64_t kMaxFeatureWidth = int64_t{1} << 19;

// What a target can give.
struct TargetShape {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;

  // Whether it has all the points, in order, and not too many.
  bool Serves(const FeatureContract& contract) const;
};

// Features of consecutive positions: row-major, the taps of a position one
// after another, bf16 bits.
struct FeatureRows {
  int64_t first_position = 0;
  int64_t width = 0;  // numbers per position
  std::vector<uint16_t> data;

  int64_t num_rows() const {
    return width == 0 ? 0 : static_cast<int64_t>(data.size()) / width;
  }
  bool empty() const { return data.empty(); }
  // Behind the last row.
  int64_t end_position() const { return first_position + num_rows(); }
  int64_t num_bytes() const {
    return static_cast<int64_t>(data.size() * sizeof(uint16_t));
  }
  // REQUIRES: first_position <= position < end_position().
  absl::Span<const uint16_t> Row(int64_t position) const {
    return absl::MakeConstSpan(data).subspan(
        (position - first_position) * width, width);
  }

  // `count` rows from `position` on. REQUIRES: all of them are there.
  absl::Span<const uint16_t> Rows(int64_t position, int64_t count) const {
    return absl::MakeConstSpan(data).subspan(
        (position - first_position) * width, count * width);
  }

  // One position, rounded to bf16. REQUIRES: row is [width].
  void Append(absl::Span<const float> row);
  // Forgets the rows from `position` on, or before it.
  void CutFrom(int64_t position);
  void CutBefore(int64_t position);
  // If there are more bytes, forgets the first rows and some more, so that it
  // is not due again with the next row.
  void CutToBytes(int64_t max_bytes);
  // Takes what `rows` adds behind the end: overlapping rows are skipped. Behind
  // a gap, or with another width, only the new rows stay.
  void Extend(const FeatureRows& rows);

  friend bool operator==(const FeatureRows&, const FeatureRows&) = default;
};

// What a verification is to bring along.
struct FeatureRequest {
  std::vector<int32_t> taps;   // as in FeatureContract; empty: nothing
  int64_t first_position = 0;  // the sender has those before it
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_FEATURES_H_
