#include "common/model/native/row_batch.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/features.h"

namespace espalier {
namespace {

absl::Status CheckTaps(const SequenceRows& rows, const RowLimits& limits) {
  int32_t before = -1;
  for (int32_t tap : rows.taps) {
    if (tap <= before || tap > NormedTap(limits.num_layers)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tap ", tap, " after ", before, ": taps ascend from 0 to at most ",
          NormedTap(limits.num_layers)));
    }
    before = tap;
  }
  return absl::OkStatus();
}

}  // namespace

RowLimits RowLimitsOf(const ModelInfo& model) {
  return {.max_rows = model.max_rows,
          .max_chain_rows = model.max_chain_rows,
          .max_context = model.max_context,
          .vocab_size = model.config.vocab_size,
          .num_layers = model.config.num_layers,
          .hidden_size = model.config.hidden_size};
}

absl::Status CheckRows(const SequenceRows& rows, int64_t prefix,
                       const RowLimits& limits) {
  const int64_t size = static_cast<int64_t>(rows.tokens.size());
  const int64_t most =
      IsChain(rows.parents) ? limits.max_chain_rows : limits.max_rows;
  if (size < 1 || size > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pass takes 1 to ", most, " rows of a sequence, not ", size));
  }
  if (rows.parents.size() != rows.tokens.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows.parents.size(), " parents for ", size, " tokens"));
  }
  if (rows.num_logit_rows < 0 || rows.num_logit_rows > size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_logit_rows ", rows.num_logit_rows, " is not in 0 .. ", size));
  }
  const int64_t words = (limits.vocab_size + 31) / 32;
  if (!rows.wanted.empty() && std::ssize(rows.wanted) != words) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted has ", rows.wanted.size(), " words, not ", words));
  }
  for (int64_t row = 0; row < size; ++row) {
    const TokenId token = rows.tokens[row];
    if (token < 0 || token >= limits.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " of row ", row, " is not in 0 .. ",
                       limits.vocab_size - 1));
    }
    const int32_t parent = rows.parents[row];
    if (parent < kPrefixParent || parent >= row) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parent ", parent, " of row ", row, " is not an earlier row"));
    }
  }
  if (prefix + size > limits.max_context) {
    return absl::OutOfRangeError(absl::StrCat(
        prefix, " cached positions and ", size, " rows exceed the context of ",
        limits.max_context, " tokens"));
  }
  return CheckTaps(rows, limits);
}

absl::Status CheckBatch(absl::Span<const SequenceRows> batch,
                        absl::FunctionRef<int64_t(CacheId)> length,
                        const RowLimits& limits) {
  if (batch.empty()) return absl::InvalidArgumentError("a pass without rows");
  std::set<CacheId> seen;
  for (const SequenceRows& rows : batch) {
    if (!seen.insert(rows.cache).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", rows.cache, " is twice in one pass"));
    }
    RETURN_IF_ERROR(CheckRows(rows, length(rows.cache), limits));
  }
  return absl::OkStatus();
}

RowTree BuildRowTree(absl::Span<const int32_t> parents, int64_t prefix) {
  RowTree tree;
  tree.prefix = prefix;
  tree.parents.assign(parents.begin(), parents.end());
  tree.ancestor_begin.push_back(0);
  for (int32_t row = 0; row < static_cast<int32_t>(parents.size()); ++row) {
    if (parents[row] != kPrefixParent) {
      const int64_t begin = tree.ancestor_begin[parents[row]];
      const int64_t end = tree.ancestor_begin[parents[row] + 1];
      for (int64_t i = begin; i < end; ++i) {
        tree.ancestors.push_back(tree.ancestors[i]);
      }
    }
    tree.ancestors.push_back(row);
    tree.ancestor_begin.push_back(static_cast<int64_t>(tree.ancestors.size()));
    const int64_t seen =
        tree.ancestor_begin[row + 1] - tree.ancestor_begin[row];
    tree.positions.push_back(prefix + seen - 1);
  }
  return tree;
}

absl::Status CheckPath(absl::Span<const int32_t> parents,
                       absl::Span<const int32_t> path) {
  int32_t expected_parent = kPrefixParent;
  for (int32_t row : path) {
    if (row < 0 || row >= static_cast<int32_t>(parents.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", row, " is not one of the last pass's ",
                       parents.size(), " rows"));
    }
    if (parents[row] != expected_parent) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", row, " has the parent ", parents[row], ", not ",
                       expected_parent, ": the rows to keep are not a path"));
    }
    expected_parent = row;
  }
  return absl::OkStatus();
}

}  // namespace espalier
