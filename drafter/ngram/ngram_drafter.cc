// Drafts from a table of n-grams counted beforehand: the last tokens of a
// node's context are looked up, longest context weighing most. With order 2
// this is the bigram drafter of nanoGPT-style speculative decoding; its
// complete tree of depth 3 and width 2 is width=2 under a budget of 14 nodes
// and depth 3.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/ngram/backoff_distribution.h"
#include "drafter/ngram/ngram_table.h"
#include "drafter/ngram/ngram_table_file.h"
#include "drafter/trees/sampled_tree.h"
#include "drafter/trees/tree_builder.h"

namespace espalier::drafter {
namespace {

class NgramDrafter final : public Drafter {
 public:
  NgramDrafter(NgramTable table, const TreeShape& shape, SampledShape sampled)
      : table_(std::move(table)), shape_(shape), sampled_(std::move(sampled)) {}

  bool is_quick() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      const auto distribution = [&](absl::Span<const TokenId> path) {
        return NextTokenDistribution(view.tokens, path);
      };
      trees.push_back(sampled_.Draws(view.sampling)
                          ? BuildSampledTree(view, sampled_, distribution)
                          : BuildTree(view, shape_, distribution));
    }
    return trees;
  }

  void Forget(SequenceId) override {}  // nothing is kept of a sequence

 private:
  std::vector<Candidate> NextTokenDistribution(
      absl::Span<const TokenId> tokens, absl::Span<const TokenId> path) const {
    const std::vector<TokenId> recent =
        RecentTokens(tokens, path, table_.order() - 1);
    BackoffDistribution distribution;
    for (size_t length = 0; length <= recent.size(); ++length) {
      const auto counts = table_.Find(absl::MakeConstSpan(recent).last(length));
      if (!counts) break;
      distribution.Refine(*counts);
    }
    return distribution.Candidates();
  }

  const NgramTable table_;
  const TreeShape shape_;
  const SampledShape sampled_;
};

absl::Status CheckFits(const NgramTable::Content& content,
                       const DrafterOptions& options, const std::string& path) {
  if (content.vocab_size != options.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "drafter ngram: option table: ", path, " was made for a vocabulary of ",
        content.vocab_size, " tokens, the target has ", options.vocab_size));
  }
  if (content.tokenizer_fingerprint != 0 &&
      options.tokenizer_fingerprint != 0 &&
      content.tokenizer_fingerprint != options.tokenizer_fingerprint) {
    return absl::InvalidArgumentError(
        absl::StrCat("drafter ngram: option table: ", path,
                     " was made with another tokenizer than the target's"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewNgramDrafter(
    const DrafterOptions& options) {
  OptionReader reader("ngram", options.options);
  const std::string path = reader.RequiredText("table");
  const TreeShape shape = ReadTreeShape(reader);
  const SampledShape sampled = ReadSampledShape(reader);
  RETURN_IF_ERROR(reader.Finish());
  absl::StatusOr<NgramTable> table = ReadNgramTable(path);
  if (!table.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "drafter ngram: option table: ", table.status().message()));
  }
  RETURN_IF_ERROR(CheckFits(table->content(), options, path));
  return std::make_unique<NgramDrafter>(*std::move(table), shape, sampled);
}

}  // namespace espalier::drafter
