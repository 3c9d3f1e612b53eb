#ifndef ESPALIER_COMMON_MODEL_NATIVE_PAGE_TABLE_H_
#define ESPALIER_COMMON_MODEL_NATIVE_PAGE_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/kv_groups.h"
#include "common/model/native/page_pool.h"
#include "common/model/native/page_strand.h"
#include "common/speculation/types.h"

namespace espalier {

// The pools of a model's page tables.
template <typename Page>
struct PagePools {
  PagePool<Page>* pages = nullptr;
  KvGroups groups = {};
  // Without whole groups: pages of no memory that stand for blocks of text.
  PagePool<Page>* texts = nullptr;
};

// The pages of one sequence, in order: those that it shares with sequences of
// the same text, then its own. Rows are written to its own pages alone. A block
// of positions has a page in each group of layers; the first whole group names
// the text, and pages of other groups are known by its pages. One thread.
template <typename Page>
class PageTable {
 public:
  // The pools must outlive the table.
  explicit PageTable(PagePool<Page>* pool)
      : PageTable(PagePools<Page>{.pages = pool}) {}
  explicit PageTable(const PagePools<Page>& pools)
      : pool_(*pools.pages),
        texts_(pools.groups.whole > 0 ? *pools.pages : *pools.texts),
        first_group_(pools.groups.whole > 0 ? 0 : 1) {
    strands_.reserve(pools.groups.count() + first_group_);
    strands_.emplace_back(&texts_, /*window=*/0);
    while (std::ssize(strands_) < pools.groups.whole) {
      strands_.emplace_back(&pool_, /*window=*/0);
    }
    for (int64_t i = 0; i < pools.groups.windowed; ++i) {
      strands_.emplace_back(&pool_, pools.groups.window);
    }
    for (TokenId i = 0; i < std::ssize(strands_); ++i) labels_.push_back(-i);
  }
  ~PageTable() { Cut(0); }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // By block of positions; Page() where it was given back.
  const std::vector<Page>& pages(int64_t group = 0) const {
    return strands_[first_group_ + group].pages();
  }
  int64_t length() const { return length_; }  // committed positions

  // Returns the room that the sequence's end would return, without pages that
  // the next Reserve gives back.
  int64_t own_tokens() const {
    return Sum([this](const Strand& strand) {
      return strand.CountOwn(strand.FirstSeen(length_));
    });
  }
  // Returns the room that others hold as well, without a page that must be
  // copied before it is written.
  int64_t shared_tokens() const {
    return Sum([this](const Strand& strand) {
      return strand.CountHeldByOthers(strand.FirstSeen(length_),
                                      length_ / pool_.page_tokens());
    });
  }

  // Makes room for `tokens` positions, so that rows can be written after the
  // committed ones, and gives back pages that these will not see.
  // `copy(from, to)` copies a page. RESOURCE_EXHAUSTED: the pool is full.
  absl::Status Reserve(int64_t tokens,
                       absl::FunctionRef<void(Page from, Page to)> copy) {
    Forget();
    RETURN_IF_ERROR(OwnTheLast(copy));
    const int64_t missing = BlocksFor(tokens) - chain().size();
    if (missing <= 0) return absl::OkStatus();
    std::vector<Page> pages;
    RETURN_IF_ERROR(pool_.Take(missing * std::ssize(groups()), pages));
    for (Strand& strand : groups()) {
      strand.Append(absl::MakeConstSpan(pages).last(missing));
      pages.resize(pages.size() - missing);
    }
    if (first_group_ == 0) return absl::OkStatus();
    RETURN_IF_ERROR(texts_.Take(missing, pages));
    chain().Append(pages);
    return absl::OkStatus();
  }

  // Commits so many further positions. REQUIRES: there is room.
  void Advance(int64_t positions) {
    length_ += positions;
    if (!pool_.caches()) Forget();
  }

  // Keeps `length` positions and the pages that they need; none if a page was
  // given back that a row after them would see. REQUIRES: 0 <= length <=
  // length().
  void Truncate(int64_t length) {
    ESPALIER_CHECK(0 <= length && length <= length_);
    for (const Strand& strand : strands_) {
      if (strand.FirstSeen(length) < strand.first_kept()) length = 0;
    }
    length_ = length;
    Cut(BlocksFor(length));
  }

  // See LanguageModel::Share.
  int64_t Share(absl::Span<const TokenId> text, absl::string_view salt) {
    const int64_t size = pool_.page_tokens();
    const int64_t before = length_;
    if (!RegainTheLast(text)) return 0;
    while (chain().num_shared() < length_ / size) {
      chain().OfferNext(
          NameAfter(LastShared(), text, salt, chain().num_shared()));
      for (size_t i = 1; i < strands_.size(); ++i) {
        strands_[i].OfferNext(NameIn(i, LastShared()));
      }
    }
    const std::vector<Shared*> next = Offered(text, salt, /*held=*/false);
    if (!next.empty()) {
      Cut(chain().num_shared());
      length_ = (chain().num_shared() + std::ssize(next)) * size;
      for (Shared* block : next) HoldNext(block);
    }
    Forget();
    return length_ - before;
  }

  // See LanguageModel::HeldPrefix. REQUIRES: the table is empty.
  int64_t HeldPrefix(absl::Span<const TokenId> text,
                     absl::string_view salt) const {
    return std::ssize(Offered(text, salt, /*held=*/true)) * pool_.page_tokens();
  }

 private:
  using Strand = PageStrand<Page>;
  using Shared = typename PagePool<Page>::Shared;
  using Name = typename PagePool<Page>::Name;

  Strand& chain() { return strands_.front(); }
  const Strand& chain() const { return strands_.front(); }
  absl::Span<Strand> groups() {
    return absl::MakeSpan(strands_).subspan(first_group_);
  }
  template <typename Count>
  int64_t Sum(const Count& count) const {
    int64_t pages = 0;
    for (size_t i = first_group_; i < strands_.size(); ++i) {
      pages += count(strands_[i]);
    }
    return pages * pool_.page_tokens();
  }
  int64_t BlocksFor(int64_t tokens) const {
    return (tokens + pool_.page_tokens() - 1) / pool_.page_tokens();
  }

  Shared* LastShared() const {
    return chain().num_shared() == 0 ? nullptr : chain().last_shared();
  }
  // Returns the name of the block after `before`.
  Name NameAfter(const Shared* before, absl::Span<const TokenId> text,
                 absl::string_view salt, int64_t blocks_before) const {
    const int64_t size = pool_.page_tokens();
    return {.before = before,
            .salt = salt,
            .tokens = text.subspan(blocks_before * size, size)};
  }
  // Returns the name of a block's page in another strand.
  Name NameIn(size_t strand, const Shared* block) const {
    return {.before = block, .salt = {}, .tokens = {&labels_[strand], 1}};
  }

  // Returns the blocks of the text, after the shared ones, that the table can
  // continue with: as far as rows after them find all pages that they see.
  // `held`: by some sequence.
  std::vector<Shared*> Offered(absl::Span<const TokenId> text,
                               absl::string_view salt, bool held) const {
    const int64_t size = pool_.page_tokens();
    std::vector<Shared*> blocks;
    size_t good = 0;
    std::vector<int64_t> runs;  // by strand: blocks up to here with pages
    for (const Strand& strand : strands_) {
      runs.push_back(strand.num_shared() - strand.first_kept());
    }
    const auto extend = [&](size_t strand, const Name& name) {
      const PagePool<Page>& pool = strand == 0 ? texts_ : pool_;
      Shared* const found = pool.Find(name);
      const bool is_there = found != nullptr && (!held || found->holders() > 0);
      runs[strand] = is_there ? runs[strand] + 1 : 0;
      return is_there ? found : nullptr;
    };
    int64_t end = chain().num_shared();
    for (Shared* last = LastShared(); (end + 1) * size <= std::ssize(text);) {
      last = extend(0, NameAfter(last, text, salt, end));
      if (last == nullptr) break;
      blocks.push_back(last);
      ++end;
      bool sees_all = true;
      for (size_t i = 1; i < strands_.size(); ++i) {
        extend(i, NameIn(i, last));
        sees_all &= runs[i] >= end - strands_[i].FirstSeen(end * size);
      }
      if (sees_all) good = blocks.size();
    }
    blocks.resize(good);
    return blocks;
  }

  // Continues with a block, up to `length_`.
  void HoldNext(Shared* block) {
    const int64_t index = chain().num_shared();
    chain().HoldNext(block);
    for (size_t i = 1; i < strands_.size(); ++i) {
      if (index < strands_[i].FirstSeen(length_)) {
        strands_[i].SkipNext();
      } else {
        strands_[i].HoldNext(pool_.Find(NameIn(i, block)));
      }
    }
  }

  // After Truncate, part of the last page may be committed although it is
  // shared. Commits the rest of it if that is the text; else returns false.
  bool RegainTheLast(absl::Span<const TokenId> text) {
    const int64_t end = chain().num_shared() * pool_.page_tokens();
    if (end <= length_) return true;
    const absl::Span<const TokenId> tokens = LastShared()->tokens();
    if (std::ssize(text) < end ||
        text.subspan(end - std::ssize(tokens), tokens.size()) != tokens) {
      return false;
    }
    length_ = end;
    return true;
  }
  // Copies such a page, or takes it out of the index, before it is written.
  absl::Status OwnTheLast(absl::FunctionRef<void(Page from, Page to)> copy) {
    if (chain().num_shared() * pool_.page_tokens() <= length_) {
      return absl::OkStatus();
    }
    const auto copied =
        std::count_if(groups().begin(), groups().end(),
                      [](const Strand& s) { return s.IsLastHeldByOthers(); });
    std::vector<Page> spare;
    RETURN_IF_ERROR(pool_.Take(copied, spare));
    for (Strand& strand : groups()) strand.OwnTheLast(spare, copy);
    if (first_group_ == 0) return absl::OkStatus();
    if (chain().IsLastHeldByOthers()) RETURN_IF_ERROR(texts_.Take(1, spare));
    chain().OwnTheLast(spare, [](Page, Page) {});
    return absl::OkStatus();
  }

  // The chain last: a page of another strand is evicted before its block.
  void Cut(int64_t blocks) {
    for (size_t i = strands_.size(); i-- > 0;) strands_[i].Cut(blocks);
  }
  void Forget() {
    for (Strand& strand : strands_) strand.Forget(strand.FirstSeen(length_));
  }

  PagePool<Page>& pool_;
  PagePool<Page>& texts_;
  const size_t first_group_;     // 1: the chain is no group of layers
  std::vector<Strand> strands_;  // of one size; the chain, then groups
  std::vector<TokenId> labels_;  // by strand, in names: no tokens
  int64_t length_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_PAGE_TABLE_H_
