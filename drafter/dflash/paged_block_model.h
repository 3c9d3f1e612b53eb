#ifndef ESPALIER_DRAFTER_DFLASH_PAGED_BLOCK_MODEL_H_
#define ESPALIER_DRAFTER_DFLASH_PAGED_BLOCK_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/native/row_batch.h"
#include "drafter/dflash/block_model.h"

namespace espalier::drafter {

// Returns the rows of a block: they attend to the prefix and to each other, or
// only to those before them (causal).
inline RowTree BlockRows(int64_t prefix, int64_t rows, bool causal) {
  RowTree tree;
  tree.prefix = prefix;
  tree.ancestor_begin.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    tree.parents.push_back(row == 0 ? kPrefixParent
                                    : static_cast<int32_t>(row - 1));
    tree.positions.push_back(prefix + row);
    const int64_t seen = causal ? row + 1 : rows;
    for (int64_t i = 0; i < seen; ++i) {
      tree.ancestors.push_back(static_cast<int32_t>(i));
    }
    tree.ancestor_begin.push_back(static_cast<int64_t>(tree.ancestors.size()));
  }
  return tree;
}

// Returns the rows that later rows attend to, and that attend to nothing.
inline RowTree ContextRows(int64_t prefix, int64_t rows) {
  RowTree tree;
  tree.prefix = prefix;
  tree.parents.assign(rows, kPrefixParent);
  tree.positions.resize(rows);
  std::iota(tree.positions.begin(), tree.positions.end(), prefix);
  tree.ancestor_begin.assign(rows + 1, 0);
  return tree;
}

// The contexts of a BlockModel, in pages of a store, wherever that is: the keys
// and values that each layer made from the target's features.
template <typename Cache, typename Store>
class PagedBlockModel : public BlockModel {
 public:
  // shares: whether the store keeps pages for other contexts.
  PagedBlockModel(DflashConfig config, std::unique_ptr<Store> store,
                  bool shares)
      : config_(std::move(config)), store_(std::move(store)), shares_(shares) {}

  const DflashConfig& config() const final { return config_; }

  Context NewContext() final {
    contexts_.try_emplace(next_context_, store_.get());
    return next_context_++;
  }
  void Release(Context context) final {
    ESPALIER_CHECK(contexts_.erase(context) == 1);
  }
  int64_t Length(Context context) const final {
    return Get(context).kv.length();
  }

  void Share(Context context, absl::Span<const TokenId> text,
             absl::string_view salt) final {
    State& state = Get(context);
    if (!shares_ || state.kv.length() != state.end_position) return;
    state.kv.Share(text, salt);
    state.end_position = state.kv.length();
  }

  absl::Status Reserve(const NewRows& rows) override {
    Cache& kv = Get(rows.context).kv;
    return kv.Reserve(kv.length() + CountOf(rows) + config_.block_size);
  }

  absl::Status Extend(absl::Span<const NewRows> rows) final {
    std::vector<Piece> pieces;
    int64_t free = kMaxPassRows;
    for (const NewRows& part : rows) {
      // The piece moves the context's end.
      const int64_t count = CountOf(part);
      for (int64_t done = 0; done < count;) {
        pieces.push_back({.rows = &part,
                          .first = BeginOf(part),
                          .count = std::min(count - done, free)});
        done += pieces.back().count;
        free -= pieces.back().count;
        if (free == 0) {
          RETURN_IF_ERROR(ExtendAndKeep(pieces));
          pieces.clear();
          free = kMaxPassRows;
        }
      }
    }
    return pieces.empty() ? absl::OkStatus() : ExtendAndKeep(pieces);
  }

 protected:
  struct State {
    explicit State(Store* store) : kv(store) {}

    Cache kv;
    int64_t end_position = 0;  // after the last position that is in
  };
  // Rows `first` .. `first` + `count` - 1 of the new rows.
  struct Piece {
    const NewRows* rows = nullptr;
    int64_t first = 0;
    int64_t count = 0;
  };
  static constexpr int64_t kMaxPassRows = 256;  // of contexts

  State& Get(Context context) {
    const auto found = contexts_.find(context);
    ESPALIER_CHECK(found != contexts_.end());
    return found->second;
  }
  const State& Get(Context context) const {
    return const_cast<PagedBlockModel*>(this)->Get(context);
  }
  Store& store() { return *store_; }

  // Returns the first position to add, and how many there are.
  int64_t BeginOf(const NewRows& rows) const {
    return std::max(Get(rows.context).end_position, rows.features.begin);
  }
  int64_t CountOf(const NewRows& rows) const {
    const int64_t end = std::min(rows.features.end, rows.root_position);
    return std::max<int64_t>(end - BeginOf(rows), 0);
  }

 private:
  // Puts the keys and values of the pieces after their contexts' own.
  virtual absl::Status ExtendBy(absl::Span<const Piece> pieces) = 0;

  absl::Status ExtendAndKeep(absl::Span<const Piece> pieces) {
    RETURN_IF_ERROR(ExtendBy(pieces));
    for (const Piece& piece : pieces) {
      State& context = Get(piece.rows->context);
      context.kv.Advance(piece.count);
      context.end_position = piece.first + piece.count;
    }
    return absl::OkStatus();
  }

  const DflashConfig config_;
  const std::unique_ptr<Store> store_;
  const bool shares_;
  std::unordered_map<Context, State> contexts_;  // hold pages of the store
  Context next_context_ = 1;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_PAGED_BLOCK_MODEL_H_
