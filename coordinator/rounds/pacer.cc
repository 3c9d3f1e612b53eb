#include "coordinator/rounds/pacer.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::coordinator {
namespace {

LogprobRows RowOf(const LogprobRows& rows, size_t i) {
  if (rows.chosen.empty()) return {.top = rows.top};
  const auto first = static_cast<std::ptrdiff_t>(i) * rows.top;
  return {.top = rows.top,
          .chosen = {rows.chosen[i]},
          .top_tokens = {rows.top_tokens.begin() + first,
                         rows.top_tokens.begin() + first + rows.top},
          .top_logprobs = {rows.top_logprobs.begin() + first,
                           rows.top_logprobs.begin() + first + rows.top}};
}

}  // namespace

void Pacer::Add(const OutputPiece& piece,
                const std::vector<size_t>& text_ends) {
  ESPALIER_CHECK(text_ends.size() == piece.tokens.size());
  size_t begin = 0;
  for (size_t i = 0; i < piece.tokens.size(); ++i) {
    tokens_.push_back(
        {.output = piece.output,
         .token = piece.tokens[i],
         .text = std::string(piece.text.substr(begin, text_ends[i] - begin)),
         .logprobs = RowOf(piece.logprobs, i),
         .cached_tokens = piece.cached_tokens,
         .origin = piece.origin});
    begin = text_ends[i];
    if (i > 0) continue;
    tokens_.back().prompt.assign(piece.prompt.begin(), piece.prompt.end());
    tokens_.back().prompt_logprobs = piece.prompt_logprobs;
  }
  SetTimer();
}

void Pacer::Await(size_t left, absl::AnyInvocable<void() &&> then) {
  ESPALIER_CHECK(then_ == nullptr);
  if (tokens_.size() <= left) return std::move(then)();
  wanted_ = left;
  then_ = std::move(then);
}

void Pacer::Flush() {
  then_ = nullptr;
  while (!tokens_.empty()) SendNext();
}

void Pacer::SetTimer() {
  if (timer_set_ || tokens_.empty()) return;
  const absl::Time now = scope_->Now();
  if (next_ == absl::InfinitePast()) {
    next_ = now + static_cast<double>(kAhead) * interval_;
  } else if (next_ < now) {
    next_ += absl::Ceil(now - next_, interval_);
  }
  timer_set_ = true;
  scope_->PostAt(next_, [this] { Tick(); });
}

void Pacer::Tick() {
  timer_set_ = false;
  if (tokens_.empty()) return;
  next_ += interval_;
  SendNext();
  SetTimer();
  if (then_ != nullptr && tokens_.size() <= wanted_) {
    std::exchange(then_, nullptr)();
  }
}

void Pacer::SendNext() {
  const Token next = std::move(tokens_.front());
  tokens_.pop_front();
  sink_->OnTokens({.output = next.output,
                   .tokens = absl::MakeConstSpan(&next.token, 1),
                   .text = next.text,
                   .step = {.step = ++num_sent_},
                   .logprobs = next.logprobs,
                   .cached_tokens = next.cached_tokens,
                   .origin = next.origin,
                   .prompt = next.prompt,
                   .prompt_logprobs = next.prompt_logprobs});
}

}  // namespace espalier::coordinator
