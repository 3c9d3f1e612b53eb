#include "drafter/ngram/ngram_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {
namespace {

using Level = NgramTable::Level;

// A total above this could not be added to without overflow.
constexpr int64_t kMaxTotal = int64_t{1} << 48;

absl::Status ContextError(int64_t length, int64_t index,
                          absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "n-gram table: context ", index, " of length ", length, ": ", what));
}

absl::Span<const TokenId> ContextAt(const Level& level, int64_t length,
                                    int64_t index) {
  return absl::MakeConstSpan(level.contexts).subspan(index * length, length);
}

bool InVocabulary(TokenId token, int64_t vocab_size) {
  return token >= 0 && token < vocab_size;
}

absl::Status CheckSuccessors(const NgramTable::Content& content, int64_t length,
                             int64_t index) {
  const Level& level = content.levels[length];
  const int64_t begin = index == 0 ? 0 : level.ends[index - 1];
  const int64_t end = level.ends[index];
  const int64_t total = level.totals[index];
  if (end <= begin || end > static_cast<int64_t>(level.successors.size())) {
    return ContextError(length, index, "successors out of range");
  }
  if (total < 1 || total > kMaxTotal || level.distinct[index] < end - begin ||
      level.distinct[index] > total) {
    return ContextError(length, index, "counts do not fit each other");
  }
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    const SuccessorCount& entry = level.successors[i];
    if (!InVocabulary(entry.token, content.vocab_size) || entry.count == 0) {
      return ContextError(
          length, index,
          absl::StrCat("successor ", entry.token, " with count ", entry.count));
    }
    if (i > begin) {
      const SuccessorCount& before = level.successors[i - 1];
      if (before.count < entry.count ||
          (before.count == entry.count && before.token >= entry.token)) {
        return ContextError(length, index, "successors out of order");
      }
    }
    sum += entry.count;
  }
  if (sum > total) {
    return ContextError(length, index, "successors exceed the total");
  }
  return absl::OkStatus();
}

// A repeated successor could hide behind different counts.
absl::Status CheckDistinct(const Level& level, int64_t length, int64_t index) {
  const int64_t begin = index == 0 ? 0 : level.ends[index - 1];
  std::vector<TokenId> tokens;
  for (int64_t i = begin; i < level.ends[index]; ++i) {
    tokens.push_back(level.successors[i].token);
  }
  std::sort(tokens.begin(), tokens.end());
  if (std::adjacent_find(tokens.begin(), tokens.end()) != tokens.end()) {
    return ContextError(length, index, "successor listed twice");
  }
  return absl::OkStatus();
}

absl::Status CheckLevel(const NgramTable::Content& content, int64_t length) {
  const Level& level = content.levels[length];
  const size_t contexts = level.totals.size();
  if (level.contexts.size() != contexts * length ||
      level.distinct.size() != contexts || level.ends.size() != contexts ||
      (length == 0 && contexts > 1) ||
      (contexts == 0 ? 0 : level.ends.back()) !=
          static_cast<int64_t>(level.successors.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "n-gram table: columns of context length ", length, " do not fit"));
  }
  for (int64_t i = 0; i < level.num_contexts(); ++i) {
    const auto context = ContextAt(level, length, i);
    for (TokenId token : context) {
      if (!InVocabulary(token, content.vocab_size)) {
        return ContextError(length, i, absl::StrCat("token ", token));
      }
    }
    if (i > 0 && !(ContextAt(level, length, i - 1) < context)) {
      return ContextError(length, i, "out of order");
    }
    RETURN_IF_ERROR(CheckSuccessors(content, length, i));
    RETURN_IF_ERROR(CheckDistinct(level, length, i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NgramTable> NgramTable::Create(Content content) {
  const int64_t order = static_cast<int64_t>(content.levels.size());
  if (order < 1 || order > kMaxOrder) {
    return absl::InvalidArgumentError(absl::StrCat(
        "n-gram table: order ", order, " is not from 1 to ", kMaxOrder));
  }
  if (content.vocab_size < 1 ||
      content.vocab_size > std::numeric_limits<TokenId>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "n-gram table: vocabulary size ", content.vocab_size,
        " is not from 1 to ", std::numeric_limits<TokenId>::max()));
  }
  for (int64_t length = 0; length < order; ++length) {
    RETURN_IF_ERROR(CheckLevel(content, length));
  }
  return NgramTable(std::move(content));
}

NgramTable::NgramTable(Content content) : content_(std::move(content)) {}

std::optional<SuccessorCounts> NgramTable::Find(
    absl::Span<const TokenId> context) const {
  const int64_t length = static_cast<int64_t>(context.size());
  ESPALIER_CHECK(length < order());
  const Level& level = content_.levels[length];
  int64_t low = 0;
  int64_t high = level.num_contexts();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (ContextAt(level, length, middle) < context) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == level.num_contexts() || ContextAt(level, length, low) != context) {
    return std::nullopt;
  }
  const int64_t begin = low == 0 ? 0 : level.ends[low - 1];
  return SuccessorCounts{
      .successors = absl::MakeConstSpan(level.successors)
                        .subspan(begin, level.ends[low] - begin),
      .total = level.totals[low],
      .distinct = level.distinct[low]};
}

}  // namespace espalier::drafter
