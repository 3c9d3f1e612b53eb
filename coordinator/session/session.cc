#include "coordinator/session/session.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/prefix_hash.h"

namespace espalier::coordinator {

Session::Session(SequenceId id, SessionParams params)
    : id_(id),
      sampling_(params.sampling),
      adjustments_(std::move(params.adjustments)),
      logprobs_(params.logprobs),
      max_tokens_(params.max_tokens),
      prompt_length_(static_cast<int64_t>(params.prompt.size())),
      stop_token_ids_(std::move(params.stop_token_ids)),
      text_(params.new_text ? params.new_text() : nullptr),
      traceparent_(std::move(params.traceparent)),
      cache_salt_(std::move(params.cache_salt)),
      hashes_{kEmptyPrefixHash} {
  ESPALIER_CHECK(prompt_length_ >= 1 && max_tokens_ >= 1);
  std::sort(stop_token_ids_.begin(), stop_token_ids_.end());
  tokens_.reserve(params.prompt.size());
  hashes_.reserve(params.prompt.size() + 1);
  for (TokenId token : params.prompt) Append(token);
  resumed_ = Commit(params.resumed);
}

void Session::Append(TokenId token) {
  tokens_.push_back(token);
  hashes_.push_back(ExtendPrefixHash(hashes_.back(), token));
}

Session::Committed Session::Commit(absl::Span<const TokenId> tokens) {
  Committed committed;
  for (TokenId token : tokens) {
    Append(token);
    ++committed.num_kept;
    // A token that ends the output has no text.
    const bool ends = std::binary_search(stop_token_ids_.begin(),
                                         stop_token_ids_.end(), token);
    if (text_ && !ends) committed.text += text_->Push(token);
    committed.text_ends.push_back(committed.text.size());
    if (ends) {
      committed.finish_reason = FinishReason::kStop;
      committed.matched_stop_token = token;
      break;
    }
    if (text_ && text_->stop_string()) {
      committed.matched_stop_string = text_->stop_string();
      committed.finish_reason = FinishReason::kStop;
      break;
    }
    if (num_left() == 0) {
      committed.finish_reason = FinishReason::kLength;
      break;
    }
  }
  return committed;
}

SequenceUpdate Session::UpdateFrom(int64_t base_length, uint64_t round) const {
  ESPALIER_CHECK(base_length >= 0 && base_length <= length());
  return {.sequence = id_,
          .round = round,
          .base_length = base_length,
          .prefix_hash = hashes_[base_length],
          .new_tokens = {tokens_.begin() + base_length, tokens_.end()},
          .sampling = sampling_,
          .cache_salt = base_length == 0 ? cache_salt_ : "",
          .traceparent = base_length == 0 ? traceparent_ : ""};
}

}  // namespace espalier::coordinator
