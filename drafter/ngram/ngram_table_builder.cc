#include "drafter/ngram/ngram_table_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "drafter/ngram/ngram_table_file.h"

namespace espalier::drafter {
namespace {

struct OptionRange {
  absl::string_view name;
  int64_t value;
  int64_t max;
};

absl::Status CheckRange(const OptionRange& option) {
  if (option.value >= 1 && option.value <= option.max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("n-gram table: ", option.name, " ", option.value,
                   " is not from 1 to ", option.max));
}

}  // namespace

absl::StatusOr<NgramTableBuilder> NgramTableBuilder::Create(
    const NgramTableOptions& options) {
  constexpr int64_t kMaxToken = std::numeric_limits<TokenId>::max();
  for (const OptionRange& option :
       {OptionRange{"order", options.order, NgramTable::kMaxOrder},
        OptionRange{"vocab_size", options.vocab_size, kMaxToken},
        OptionRange{"max_successors", options.max_successors, kMaxToken},
        OptionRange{"min_count", options.min_count, kMaxToken}}) {
    RETURN_IF_ERROR(CheckRange(option));
  }
  return NgramTableBuilder(options);
}

NgramTableBuilder::NgramTableBuilder(const NgramTableOptions& options)
    : options_(options), levels_(options.order) {}

absl::Status NgramTableBuilder::Add(absl::Span<const TokenId> document) {
  for (TokenId token : document) {
    if (token < 0 || token >= options_.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("n-gram table: token ", token,
                       " outside the vocabulary of ", options_.vocab_size));
    }
  }
  const int64_t size = static_cast<int64_t>(document.size());
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t length = 0; length < options_.order && length <= i; ++length) {
      Context context = {};
      std::copy_n(document.begin() + i - length, length, context.begin());
      uint32_t& count = levels_[length][context][document[i]];
      if (count < std::numeric_limits<uint32_t>::max()) ++count;
    }
  }
  return absl::OkStatus();
}

NgramTable NgramTableBuilder::Build() const {
  NgramTable::Content content = {
      .vocab_size = options_.vocab_size,
      .tokenizer_fingerprint = options_.tokenizer_fingerprint};
  for (int64_t length = 0; length < options_.order; ++length) {
    content.levels.push_back(BuildLevel(length));
  }
  absl::StatusOr<NgramTable> table = NgramTable::Create(std::move(content));
  ESPALIER_CHECK(table.ok());
  return *std::move(table);
}

NgramTable::Level NgramTableBuilder::BuildLevel(int64_t length) const {
  std::vector<Context> contexts;
  for (const auto& [context, counts] : levels_[length]) {
    contexts.push_back(context);
  }
  std::sort(contexts.begin(), contexts.end());

  NgramTable::Level level;
  for (const Context& context : contexts) {
    std::vector<SuccessorCount> kept;
    int64_t total = 0;
    const Counts& counts = levels_[length].at(context);
    for (const auto& [token, count] : counts) {
      total += count;
      if (count >= options_.min_count) kept.push_back({token, count});
    }
    if (kept.empty()) continue;
    std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
      return a.count != b.count ? a.count > b.count : a.token < b.token;
    });
    if (static_cast<int64_t>(kept.size()) > options_.max_successors) {
      kept.resize(options_.max_successors);
    }
    level.contexts.insert(level.contexts.end(), context.begin(),
                          context.begin() + length);
    level.totals.push_back(total);
    level.distinct.push_back(static_cast<int64_t>(counts.size()));
    level.successors.insert(level.successors.end(), kept.begin(), kept.end());
    level.ends.push_back(static_cast<int64_t>(level.successors.size()));
  }
  return level;
}

absl::Status BuildNgramTable(const NgramTableOptions& options,
                             NextDocument next_document,
                             const std::string& path) {
  ASSIGN_OR_RETURN(NgramTableBuilder builder,
                   NgramTableBuilder::Create(options));
  std::vector<TokenId> document;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, next_document(document));
    if (!more) break;
    RETURN_IF_ERROR(builder.Add(document));
  }
  return WriteNgramTable(builder.Build(), path);
}

}  // namespace espalier::drafter
