#ifndef ESPALIER_COORDINATOR_SESSION_SESSION_H_
#define ESPALIER_COORDINATOR_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/speculation/messages.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/types.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

struct SessionParams {
  std::vector<TokenId> prompt;  // at least one token
  // Output that earlier calls have returned, as if it had been committed here.
  std::vector<TokenId> resumed = {};
  SamplingParams sampling;
  int64_t max_tokens = 0;                    // >= 1
  std::vector<TokenId> stop_token_ids = {};  // end-of-sequence ids among them
  LogitAdjustments adjustments = {};
  LogprobRequest logprobs = {};
  NewOutputText new_text = nullptr;
  std::string traceparent = {};
  std::string cache_salt = {};
};

// The committed tokens of one request, and the conditions that end it. They are
// the only state of record of a sequence, so nothing is ever rolled back. Lives
// on the executor.
class Session {
 public:
  Session(SequenceId id, SessionParams params);

  struct Committed {
    int64_t num_kept = 0;  // tokens after the end are dropped
    FinishReason finish_reason = FinishReason::kUnspecified;  // not ended
    std::optional<TokenId> matched_stop_token = {};
    std::optional<std::string> matched_stop_string = {};
    std::string text = {};               // that is certain with the kept tokens
    std::vector<size_t> text_ends = {};  // in `text`, of each kept token
  };
  // Appends the tokens that a verification emitted.
  Committed Commit(absl::Span<const TokenId> tokens);

  // The commit of the resumed output. If it keeps fewer tokens than there are,
  // they do not belong to this request: one of them ends the output.
  const Committed& resumed() const { return resumed_; }

  // Ends the text: what was held back.
  std::string FlushText() { return text_ ? text_->Flush() : ""; }

  // The update for a peer that holds `base_length` tokens. REQUIRES: 0 <=
  // base_length <= length().
  SequenceUpdate UpdateFrom(int64_t base_length, uint64_t round) const;

  SequenceId id() const { return id_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t prompt_length() const { return prompt_length_; }
  int64_t num_emitted() const { return length() - prompt_length_; }
  int64_t num_left() const { return max_tokens_ - num_emitted(); }
  TokenId last_token() const { return tokens_.back(); }
  absl::Span<const TokenId> tokens() const { return tokens_; }
  absl::Span<const TokenId> prompt() const {
    return tokens().first(static_cast<size_t>(prompt_length_));
  }
  const LogitAdjustments& adjustments() const { return adjustments_; }
  // Returns what the next round has to return.
  LogprobRequest logprobs() const {
    return num_emitted() == 0 ? logprobs_
                              : LogprobRequest{.emitted = logprobs_.emitted};
  }

 private:
  void Append(TokenId token);

  const SequenceId id_;
  const SamplingParams sampling_;
  const LogitAdjustments adjustments_;
  const LogprobRequest logprobs_;
  const int64_t max_tokens_;
  const int64_t prompt_length_;
  std::vector<TokenId> stop_token_ids_;     // sorted
  const std::unique_ptr<OutputText> text_;  // or null
  const std::string traceparent_;
  const std::string cache_salt_;
  std::vector<TokenId> tokens_;   // [length], prompt included
  std::vector<uint64_t> hashes_;  // [length + 1], [n]: of n tokens
  Committed resumed_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_SESSION_SESSION_H_
