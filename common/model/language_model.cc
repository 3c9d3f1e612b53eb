#include "common/model/language_model.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {

bool IsChain(absl::Span<const int32_t> parents) {
  static_assert(kPrefixParent == -1, "of the first row, as of any after it");
  for (int32_t row = 0; row < static_cast<int32_t>(parents.size()); ++row) {
    if (parents[row] != row - 1) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<LogitRows>> Prefill(
    LanguageModel& model, CacheId cache, absl::Span<const TokenId> tokens,
    int64_t chunk) {
  ESPALIER_CHECK(!tokens.empty() && chunk > 0);
  std::unique_ptr<LogitRows> logits;
  const int64_t size = static_cast<int64_t>(tokens.size());
  for (int64_t begin = 0; begin < size; begin += chunk) {
    const int64_t rows = std::min(chunk, size - begin);
    std::vector<int32_t> parents(rows), path(rows);
    std::iota(parents.begin(), parents.end(), kPrefixParent);
    std::iota(path.begin(), path.end(), 0);
    const SequenceRows chain = {.cache = cache,
                                .tokens = tokens.subspan(begin, rows),
                                .parents = parents,
                                .num_logit_rows = begin + rows == size ? 1 : 0};
    ASSIGN_OR_RETURN(logits, model.Forward({&chain, 1}));
    RETURN_IF_ERROR(model.Keep(cache, path, {}));
  }
  return logits;
}

}  // namespace espalier
