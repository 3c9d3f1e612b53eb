#ifndef ESPALIER_COORDINATOR_ROUNDS_PACER_H_
#define ESPALIER_COORDINATOR_ROUNDS_PACER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/speculation/types.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// Hands the tokens of one output to a sink one by one: the first kAhead
// intervals after it came, and one each interval from then on, however they
// come. Where none is there, one of the next such times has it. Steps are
// counted as if each had brought one token. Lives on the executor.
class Pacer {
 public:
  static constexpr size_t kAhead = 4;

  // Borrows scope and sink.
  Pacer(const ExecutorScope* scope, absl::Duration interval, TokenSink* sink)
      : scope_(scope), interval_(interval), sink_(sink) {}

  // `text_ends`: where the text of each token of `piece` ends.
  void Add(const OutputPiece& piece, const std::vector<size_t>& text_ends);
  // Calls `then` once, when at most `left` tokens are not sent yet; perhaps
  // before it returns. REQUIRES: no other call waits.
  void Await(size_t left, absl::AnyInvocable<void() &&> then);
  // Sends all tokens now. What waits is not called.
  void Flush();

 private:
  struct Token {
    int64_t output;
    TokenId token;
    std::string text;
    LogprobRows logprobs;
    int64_t cached_tokens;
    uint64_t origin;
    std::vector<TokenId> prompt = {};
    LogprobRows prompt_logprobs = {};
  };

  void SetTimer();
  void Tick();
  void SendNext();

  const ExecutorScope* const scope_;
  const absl::Duration interval_;
  TokenSink* const sink_;
  std::deque<Token> tokens_;
  int64_t num_sent_ = 0;
  absl::Time next_ = absl::InfinitePast();  // earliest time of the next token
  bool timer_set_ = false;
  size_t wanted_ = 0;  // of then_
  absl::AnyInvocable<void()&&> then_ = nullptr;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_PACER_H_
