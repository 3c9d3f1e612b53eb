#ifndef ESPALIER_COMMON_MODEL_NATIVE_PAGE_STRAND_H_
#define ESPALIER_COMMON_MODEL_NATIVE_PAGE_STRAND_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/model/native/page_pool.h"

namespace espalier {

// The pages of one sequence and one group of layers, one for each block of
// positions: those that fell out of the window and were given back, then those
// that it shares with sequences of the same text, then its own. Cut(0) gives
// all back. One thread.
template <typename Page>
class PageStrand {
 public:
  using Shared = typename PagePool<Page>::Shared;
  using Name = typename PagePool<Page>::Name;

  // `window`: positions that a row sees, its own among them; 0: all. `pool`
  // must outlive the strand.
  PageStrand(PagePool<Page>* pool, int64_t window)
      : pool_(pool), window_(window) {}

  // By block; those that were given back are Page().
  const std::vector<Page>& pages() const { return pages_; }
  int64_t size() const { return std::ssize(pages_); }
  // Blocks up to the end of the shared ones.
  int64_t num_shared() const { return std::ssize(shared_); }
  Shared* last_shared() const { return shared_.back(); }

  // Returns the first block that rows from position `length` on see.
  int64_t FirstSeen(int64_t length) const {
    if (window_ == 0) return 0;
    return std::max<int64_t>(0, length - window_ + 1) / pool_->page_tokens();
  }
  // Blocks before it were given back.
  int64_t first_kept() const { return first_kept_; }

  // Returns the pages from `first` on that no other sequence holds.
  int64_t CountOwn(int64_t first) const {
    return size() - std::min(std::max(first, first_kept_), size()) -
           CountHeldByOthers(first, num_shared());
  }
  // Returns the blocks of [first, end) whose pages other sequences hold, too.
  int64_t CountHeldByOthers(int64_t first, int64_t end) const {
    const auto by_others = [](const Shared* shared) {
      return shared != nullptr && shared->holders() > 1;
    };
    const auto begin = shared_.begin() + std::min(first, num_shared());
    const auto stop = shared_.begin() + std::min(end, num_shared());
    if (stop <= begin) return 0;
    // Who sees everything holds all blocks before one that it holds.
    if (window_ == 0) {
      return std::partition_point(begin, stop, by_others) - begin;
    }
    return std::count_if(begin, stop, by_others);
  }

  // Continues with own pages, of the strand's pool.
  void Append(absl::Span<const Page> pages) {
    pages_.insert(pages_.end(), pages.begin(), pages.end());
  }

  // Offers the first own page under this name.
  void OfferNext(const Name& name) {
    const int64_t block = num_shared();
    if (block < first_kept_) {
      shared_.push_back(nullptr);
      return;
    }
    shared_.push_back(pool_->Offer(name, pages_[block]));
    pages_[block] = shared_.back()->value;
  }
  // Continues the shared pages. REQUIRES: there are no own ones.
  void HoldNext(Shared* shared) {
    pool_->Hold(shared);
    shared_.push_back(shared);
    pages_.push_back(shared->value);
  }
  // Continues with a block that is forgotten next. REQUIRES: as of HoldNext.
  void SkipNext() {
    shared_.push_back(nullptr);
    pages_.push_back(Page());
  }

  // Gives back the pages of the blocks before `first`.
  void Forget(int64_t first) {
    for (; first_kept_ < std::min(first, size()); ++first_kept_) {
      const Page page = std::exchange(pages_[first_kept_], Page());
      if (first_kept_ >= num_shared()) {
        pool_->Return({page});
      } else if (shared_[first_kept_] != nullptr) {
        pool_->Release(std::exchange(shared_[first_kept_], nullptr));
      }
    }
  }

  bool IsLastHeldByOthers() const { return shared_.back()->holders() > 1; }
  // Makes the last shared page an own one, before it is written: takes it out
  // of the index, or copies it to the last page of `spare` if others hold it.
  void OwnTheLast(std::vector<Page>& spare,
                  absl::FunctionRef<void(Page from, Page to)> copy) {
    Shared* const last = shared_.back();
    if (IsLastHeldByOthers()) {
      copy(last->value, spare.back());
      pages_[num_shared() - 1] = spare.back();
      spare.pop_back();
      pool_->Release(last);
    } else {
      pool_->Withdraw(last);
    }
    shared_.pop_back();
  }

  // Gives back the pages from block `size` on.
  void Cut(int64_t size) {
    const int64_t own_from =
        std::max({size, num_shared(), std::min(first_kept_, this->size())});
    if (own_from < this->size()) {
      pool_->Return(absl::MakeConstSpan(pages_).subspan(own_from));
    }
    // The last first: see PrefixIndex.
    for (; num_shared() > size; shared_.pop_back()) {
      if (shared_.back() != nullptr) pool_->Release(shared_.back());
    }
    if (size < this->size()) pages_.resize(size);
    first_kept_ = std::min(first_kept_, size);
  }

 private:
  PagePool<Page>* pool_;
  int64_t window_;
  std::vector<Page> pages_;
  std::vector<Shared*> shared_;  // of the first of pages_
  int64_t first_kept_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_PAGE_STRAND_H_
