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
#include "common/model/native/page_pool.h"
#include "common/spec/types.h"

namespace espalier {

// The pages of one sequence, in order: those that it shares with sequences of
// the same text, then its own. Rows are written to its own pages alone. One
// thread.
template <typename Page>
class PageTable {
 public:
  // `pool` must outlive the table.
  explicit PageTable(PagePool<Page>* pool) : pool_(*pool) {}
  ~PageTable() { Cut(0); }
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  const std::vector<Page>& pages() const { return pages_; }
  int64_t length() const { return length_; }  // committed positions

  // Returns the room that the sequence's end would return.
  int64_t own_tokens() const {
    return (std::ssize(pages_) - NumHeldByOthers()) * pool_.page_tokens();
  }
  // Returns the room that others hold as well, without a page that must be
  // copied before it is written.
  int64_t shared_tokens() const {
    const int64_t whole = length_ / pool_.page_tokens();
    return std::min(NumHeldByOthers(), whole) * pool_.page_tokens();
  }

  // Makes room for `tokens` positions, so that rows can be written after the
  // committed ones. `copy(from, to)` copies a page. RESOURCE_EXHAUSTED: the
  // pool is full.
  absl::Status Reserve(int64_t tokens,
                       absl::FunctionRef<void(Page from, Page to)> copy) {
    RETURN_IF_ERROR(OwnTheLast(copy));
    const int64_t missing = PagesFor(tokens) - std::ssize(pages_);
    if (missing <= 0) return absl::OkStatus();
    return pool_.Take(missing, pages_);
  }

  // Commits so many further positions. REQUIRES: there is room.
  void Advance(int64_t positions) { length_ += positions; }

  // Keeps `length` positions and the pages that they need. REQUIRES: 0 <=
  // length <= length().
  void Truncate(int64_t length) {
    ESPALIER_CHECK(0 <= length && length <= length_);
    length_ = length;
    Cut(PagesFor(length));
  }

  // See LanguageModel::Share.
  int64_t Share(absl::Span<const TokenId> text, absl::string_view salt) {
    const int64_t size = pool_.page_tokens();
    const int64_t before = length_;
    if (!RegainTheLast(text)) return 0;
    while (std::ssize(shared_) < length_ / size) {
      shared_.push_back(
          pool_.Offer(NextName(text, salt), pages_[shared_.size()]));
      pages_[shared_.size() - 1] = shared_.back()->value;
    }
    while ((std::ssize(shared_) + 1) * size <= std::ssize(text)) {
      auto* const next = pool_.Find(NextName(text, salt));
      if (next == nullptr) break;
      Cut(std::ssize(shared_));
      shared_.push_back(next);
      pages_.push_back(next->value);
      length_ = std::ssize(shared_) * size;
    }
    return length_ - before;
  }

 private:
  int64_t PagesFor(int64_t tokens) const {
    return (tokens + pool_.page_tokens() - 1) / pool_.page_tokens();
  }
  typename PagePool<Page>::Name NextName(absl::Span<const TokenId> text,
                                         absl::string_view salt) const {
    const int64_t size = pool_.page_tokens();
    return {.before = shared_.empty() ? nullptr : shared_.back(),
            .salt = salt,
            .tokens = text.subspan(shared_.size() * size, size)};
  }
  // Who holds a page holds all before it, so these are the first ones.
  int64_t NumHeldByOthers() const {
    return std::partition_point(
               shared_.begin(), shared_.end(),
               [](const auto* shared) { return shared->holders() > 1; }) -
           shared_.begin();
  }
  // After Truncate, part of the last page may be committed although it is
  // shared. Commits the rest of it if that is the text; else returns false.
  bool RegainTheLast(absl::Span<const TokenId> text) {
    const int64_t end = std::ssize(shared_) * pool_.page_tokens();
    if (end <= length_) return true;
    const absl::Span<const TokenId> tokens = shared_.back()->tokens();
    if (std::ssize(text) < end ||
        text.subspan(end - std::ssize(tokens), tokens.size()) != tokens) {
      return false;
    }
    length_ = end;
    return true;
  }
  // Copies such a page, or takes it out of the index, before it is written.
  absl::Status OwnTheLast(absl::FunctionRef<void(Page from, Page to)> copy) {
    if (std::ssize(shared_) * pool_.page_tokens() <= length_) {
      return absl::OkStatus();
    }
    auto* const last = shared_.back();
    if (last->holders() == 1) {
      shared_.pop_back();
      pool_.Withdraw(last);
      return absl::OkStatus();
    }
    std::vector<Page> own;
    RETURN_IF_ERROR(pool_.Take(1, own));
    copy(last->value, own[0]);
    pages_[shared_.size() - 1] = own[0];
    shared_.pop_back();
    pool_.Release(last);
    return absl::OkStatus();
  }
  void Cut(int64_t pages) {
    const int64_t own_from = std::max(pages, std::ssize(shared_));
    if (own_from < std::ssize(pages_)) {
      pool_.Return(absl::MakeConstSpan(pages_).subspan(own_from));
    }
    // The last first: see PrefixIndex.
    while (std::ssize(shared_) > pages) {
      pool_.Release(shared_.back());
      shared_.pop_back();
    }
    if (pages < std::ssize(pages_)) pages_.resize(pages);
  }

  PagePool<Page>& pool_;
  std::vector<Page> pages_;
  std::vector<typename PagePool<Page>::Shared*> shared_;  // the first of pages_
  int64_t length_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_PAGE_TABLE_H_
