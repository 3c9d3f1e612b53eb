#include "drafter/heads/draft_vocabulary.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier::drafter {
namespace {

// Little-endian integers of either width.
int64_t IntegerAt(const TensorView& view, int64_t index) {
  if (view.dtype == DType::kI32) {
    int32_t value;
    std::memcpy(&value, view.data.data() + index * 4, 4);
    return value;
  }
  int64_t value;
  std::memcpy(&value, view.data.data() + index * 8, 8);
  return value;
}

}  // namespace

DraftVocabulary DraftVocabulary::Full(int64_t target_size) {
  std::vector<TokenId> tokens(target_size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return DraftVocabulary(std::move(tokens));
}

absl::StatusOr<DraftVocabulary> DraftVocabulary::FromOffsets(
    const TensorView& d2t, int64_t target_size) {
  if (d2t.shape.size() != 1 ||
      (d2t.dtype != DType::kI64 && d2t.dtype != DType::kI32)) {
    return absl::InvalidArgumentError(
        "tensor d2t must be a row of 32-bit or 64-bit integers");
  }
  std::vector<TokenId> tokens;
  std::vector<bool> seen(target_size);
  for (int64_t i = 0; i < d2t.shape[0]; ++i) {
    const int64_t offset = IntegerAt(d2t, i);
    if (offset < -i || offset >= target_size - i) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor d2t: entry ", i, " is ", offset,
          ", which leads out of the target's vocabulary of ", target_size));
    }
    if (seen[i + offset]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor d2t: entry ", i, " gives token ", i + offset, " again"));
    }
    seen[i + offset] = true;
    tokens.push_back(static_cast<TokenId>(i + offset));
  }
  return DraftVocabulary(std::move(tokens));
}

}  // namespace espalier::drafter
