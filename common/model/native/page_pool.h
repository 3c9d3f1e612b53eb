#ifndef ESPALIER_COMMON_MODEL_NATIVE_PAGE_POOL_H_
#define ESPALIER_COMMON_MODEL_NATIVE_PAGE_POOL_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/model/native/kv_pool.h"
#include "common/speculation/prefix_index.h"

namespace espalier {

// The K/V pages of one model's sequences. A page belongs to one sequence, or it
// is full, never written again, and shared by all sequences of the same text
// (PrefixIndex). A shared page that no sequence holds is cached: its room
// counts as free, and it is evicted when its memory is needed. One thread.
template <typename Page>
class PagePool {
 public:
  using Shared = typename PrefixIndex<Page>::Block;
  using Name = typename PrefixIndex<Page>::Name;

  struct Options {
    int64_t page_tokens = 0;
    int64_t total_tokens = 0;
    int64_t max_cached_tokens = 0;  // of pages that no sequence holds
    // A page that did not exist before, called at most total_tokens /
    // page_tokens times. May throw std::bad_alloc.
    std::function<Page()> make;
  };
  explicit PagePool(Options options)
      : options_(std::move(options)), room_(options_.total_tokens) {}

  int64_t page_tokens() const { return options_.page_tokens; }
  bool caches() const { return options_.max_cached_tokens > 0; }
  const KvPool& room() const { return room_; }
  int64_t cached_tokens() const { return index_.num_idle() * page_tokens(); }
  int64_t evicted_tokens() const { return evicted_tokens_; }  // so far

  // Appends `count` pages, or none on failure. RESOURCE_EXHAUSTED: the pool is
  // full.
  absl::Status Take(int64_t count, std::vector<Page>& pages) {
    RETURN_IF_ERROR(room_.Check(count * page_tokens()));
    // May throw; until then only the free list may have changed.
    while (static_cast<int64_t>(free_.size()) < count) FreeOne();
    pages.insert(pages.end(), free_.rbegin(), free_.rbegin() + count);
    free_.resize(free_.size() - count);
    return room_.Take(count * page_tokens());
  }
  void Return(absl::Span<const Page> pages) {
    free_.insert(free_.end(), pages.begin(), pages.end());
    room_.Return(static_cast<int64_t>(pages.size()) * page_tokens());
  }

  // Makes a sequence's own page a shared one that the sequence holds. If the
  // same text has a page already, the sequence holds that and `page` is free.
  Shared* Offer(const Name& name, Page page) {
    Shared* const known = index_.Find(name);
    if (known == nullptr) return index_.Insert(name, page);
    Return({page});
    Hold(known);
    return known;
  }
  // Returns the shared page of this name; null: there is none.
  Shared* Find(const Name& name) const { return index_.Find(name); }
  void Hold(Shared* shared) {
    if (shared->holders() == 0) {
      ESPALIER_CHECK(room_.Take(page_tokens()).ok());
    }
    index_.Hold(shared);
  }
  void Release(Shared* shared) {
    if (!index_.Release(shared)) return;
    room_.Return(page_tokens());
    if (cached_tokens() > options_.max_cached_tokens) EvictOne();
  }
  // Makes a page that only one sequence holds its own again.
  Page Withdraw(Shared* shared) { return index_.Withdraw(shared); }

 private:
  void FreeOne() {
    if ((num_made_ + 1) * page_tokens() > options_.total_tokens) {
      EvictOne();
      return;
    }
    free_.push_back(options_.make());
    ++num_made_;
  }
  void EvictOne() {
    free_.push_back(index_.EvictOldest());
    evicted_tokens_ += page_tokens();
  }

  const Options options_;
  KvPool room_;
  PrefixIndex<Page> index_;
  std::vector<Page> free_;
  int64_t num_made_ = 0;
  int64_t evicted_tokens_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_PAGE_POOL_H_
