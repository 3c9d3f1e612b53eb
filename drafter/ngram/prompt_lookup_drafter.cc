// Prompt lookup: drafts the tokens that followed earlier occurrences of the
// text's last tokens, in the prompt or in the output so far (Saxena, "Prompt
// Lookup Decoding", 2023), here as a tree. For a node, the occurrences of its
// context's suffixes of every length are counted and mixed into one
// distribution.
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status_macros.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/ngram/backoff_distribution.h"
#include "drafter/ngram/suffix_index.h"
#include "drafter/trees/tree_builder.h"

namespace espalier::drafter {
namespace {

struct PromptLookupOptions {
  int64_t min_match = 1;  // shortest suffix that counts as a match
  SuffixIndex::Options index;
  TreeShape shape;
};

// Memory of a sequence: at most 16 * max_match bytes for each of its tokens
// (the index doubles as it grows), and never more than 8 * max_match for each
// token of the window. The tokens of all sequences are bounded by the engine's
// store.
class PromptLookupDrafter final : public Drafter {
 public:
  explicit PromptLookupDrafter(const PromptLookupOptions& options)
      : options_(options) {}

  bool is_quick() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      SuffixIndex& index =
          indexes_.try_emplace(view.id, options_.index).first->second;
      index.Extend(view.tokens);
      trees.push_back(
          BuildTree(view, options_.shape, [&](absl::Span<const TokenId> path) {
            return NextTokenDistribution(index, view.tokens, path);
          }));
    }
    return trees;
  }

  void Forget(SequenceId id) override { indexes_.erase(id); }

 private:
  std::vector<Candidate> NextTokenDistribution(
      const SuffixIndex& index, absl::Span<const TokenId> tokens,
      absl::Span<const TokenId> path) const {
    const std::vector<TokenId> context =
        RecentTokens(tokens, path, options_.index.max_length);
    const auto by_length = index.Successors(tokens, context);
    BackoffDistribution distribution;
    for (size_t n = options_.min_match; n <= by_length.size(); ++n) {
      const std::vector<SuccessorCount>& successors = by_length[n - 1];
      int64_t total = 0;
      for (const SuccessorCount& entry : successors) total += entry.count;
      distribution.Refine(
          {.successors = successors,
           .total = total,
           .distinct = static_cast<int64_t>(successors.size())});
    }
    return distribution.Candidates();
  }

  const PromptLookupOptions options_;
  absl::flat_hash_map<SequenceId, SuffixIndex> indexes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewPromptLookupDrafter(
    const DrafterOptions& options) {
  OptionReader reader("prompt_lookup", options.options);
  PromptLookupOptions lookup;
  lookup.index.max_length = reader.Integer("max_match", {5, 1, 16});
  lookup.min_match =
      reader.Integer("min_match", {1, 1, lookup.index.max_length});
  lookup.index.max_matches = reader.Integer("max_matches", {32, 1, 1024});
  lookup.index.window = static_cast<int64_t>(std::bit_ceil(
      static_cast<uint64_t>(reader.Integer("window", {32768, 16, 1 << 20}))));
  lookup.shape = ReadTreeShape(reader);
  RETURN_IF_ERROR(reader.Finish());
  return std::make_unique<PromptLookupDrafter>(lookup);
}

}  // namespace espalier::drafter
