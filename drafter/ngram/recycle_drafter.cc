// Token recycling: drafts from what the target itself said after the same two
// tokens, in rows that it computed anyway, rejected nodes included (after Luo
// et al., "Turning Trash into Treasure", arXiv 2408.08696). It takes a table in
// place of weights, so it serves targets that have no trained drafter. Beside a
// draft head it adds next to nothing.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status_macros.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/ngram/rank_table.h"
#include "drafter/ngram/tenants.h"
#include "drafter/trees/tree_builder.h"

namespace espalier::drafter {
namespace {

// Under sampling the noise decides among many tokens, so that the emitted one
// is often far down the target's own ranking.
constexpr int32_t kGreedyTop = 4, kSampledTop = 64;
constexpr int64_t kContext = 2;  // tokens

struct RecycleOptions {
  TreeShape shape;
  int64_t table_bytes = 0;
  int64_t max_tenants = 1;
  int64_t prompt_rows = 0;
};

// Memory of a tenant: its table's. Nothing is kept of a sequence.
class RecycleDrafter final : public Drafter {
 public:
  explicit RecycleDrafter(const RecycleOptions& options)
      : options_(options), tenants_(options.max_tenants, [options] {
          return std::make_unique<RankTable>(options.table_bytes);
        }) {}

  RankNeed ranks() const override {
    return {.greedy = kGreedyTop,
            .sampled = kSampledTop,
            .prompt_rows = static_cast<int32_t>(options_.prompt_rows)};
  }
  bool is_quick() const override { return true; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      RankTable& table = tenants_.Get(view.cache_salt);
      if (view.ranks != nullptr) table.Observe(*view.ranks);
      trees.push_back(
          BuildTree(view, options_.shape, [&](absl::Span<const TokenId> path) {
            return table.After(RecentTokens(view.tokens, path, kContext));
          }));
    }
    return trees;
  }

  void Forget(SequenceId) override {}

 private:
  const RecycleOptions options_;
  Tenants<RankTable> tenants_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewRecycleDrafter(
    const DrafterOptions& options) {
  OptionReader reader("recycle", options.options);
  RecycleOptions recycle;
  recycle.shape = ReadTreeShape(reader, /*noise_scale=*/2);
  recycle.table_bytes = reader.Integer("table_mib", {32, 1, 4096}) << 20;
  recycle.max_tenants = reader.Integer("max_tenants", {8, 1, 4096});
  recycle.prompt_rows =
      reader.Integer("prompt_rows", {256, 0, kMaxPromptRanks});
  RETURN_IF_ERROR(reader.Finish());
  return std::make_unique<RecycleDrafter>(recycle);
}

}  // namespace espalier::drafter
