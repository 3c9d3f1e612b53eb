#ifndef ESPALIER_COMMON_MODEL_NATIVE_KV_POOL_H_
#define ESPALIER_COMMON_MODEL_NATIVE_KV_POOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace espalier {

// The budget of K/V room that the sequences of one model share, in tokens.
// Counts only; each KvCache holds its own buffers. One thread.
class KvPool {
 public:
  explicit KvPool(int64_t total_tokens) : total_tokens_(total_tokens) {}

  // Returns OK if Take would succeed. RESOURCE_EXHAUSTED names the limit.
  absl::Status Check(int64_t tokens) const {
    if (tokens <= free_tokens()) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the K/V pool of ", total_tokens_, " tokens has ",
                     free_tokens(), " left, ", tokens, " are needed"));
  }

  absl::Status Take(int64_t tokens) {
    absl::Status room = Check(tokens);
    if (room.ok()) used_tokens_ += tokens;
    return room;
  }

  void Return(int64_t tokens) {
    ESPALIER_CHECK(tokens <= used_tokens_);
    used_tokens_ -= tokens;
  }

  int64_t used_tokens() const { return used_tokens_; }
  int64_t total_tokens() const { return total_tokens_; }
  int64_t free_tokens() const { return total_tokens_ - used_tokens_; }

 private:
  const int64_t total_tokens_;
  int64_t used_tokens_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_KV_POOL_H_
