#include "coordinator/peers/verifier_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/request_errors.h"
#include "common/speculation/same_model.h"
#include "common/speculation/stale_base.h"

namespace espalier::coordinator {
namespace {

absl::Status BadVerifyResult(absl::string_view what) {
  return absl::InternalError(absl::StrCat("verify_result: ", what));
}

}  // namespace

absl::Status CheckVerifyResult(const VerifyResult& verify_result,
                               uint64_t round, const TokenTree& tree,
                               int64_t vocab_size) {
  if (verify_result.round != round) {
    return BadVerifyResult(
        absl::StrCat("round ", verify_result.round, ", expected ", round));
  }
  if (verify_result.tokens.size() != verify_result.path.size() + 1) {
    return BadVerifyResult(
        absl::StrCat(verify_result.tokens.size(), " tokens for ",
                     verify_result.path.size(), " accepted nodes"));
  }
  int32_t parent = 0;
  for (size_t i = 0; i < verify_result.path.size(); ++i) {
    const int32_t node = verify_result.path[i];
    if (node < 1 || node >= tree.num_nodes() || tree.parents[node] != parent) {
      return BadVerifyResult(
          absl::StrCat("node ", node, " is not a child of node ", parent));
    }
    if (verify_result.tokens[i] != tree.tokens[node]) {
      return BadVerifyResult(absl::StrCat("token ", verify_result.tokens[i],
                                          " is not that of node ", node));
    }
    parent = node;
  }
  const TokenId bonus = verify_result.tokens.back();
  if (bonus < 0 || bonus >= vocab_size) {
    return BadVerifyResult(absl::StrCat(
        "token ", bonus, " outside the vocabulary of ", vocab_size));
  }
  return absl::OkStatus();
}

void VerifierLink::Verify(const Session& session, uint64_t round,
                          const TokenTree& tree, FeatureRequest features,
                          RanksRequest ranks, Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  session_ = &session;
  tree_ = &tree;
  features_ = std::move(features);
  ranks_ = ranks;
  round_ = round;
  began_ = scope_.Now();
  then_ = std::move(then);
  fed_again_ = false;
  num_retries_ = 0;
  patience_ = peer_.retry.ask_again_after;
  Send();
}

void VerifierLink::Send() {
  was_asked_ = true;
  trouble_ = absl::OkStatus();
  if (!waits_) sent_ = scope_.Now();
  waits_ = true;
  // Set before the call, as the answer may come at once.
  answer_due_ =
      scope_.SetTimer(scope_.Now() + patience_, [this] { AskAgain(); });
  const bool opens = held_length_ == 0;
  peer_.endpoint->Verify(
      {.update = session_->UpdateFrom(held_length_, round_),
       .tree = *tree_,
       .rule = terms_.rule,
       .features = features_,
       .max_length = session_->length() + session_->num_left(),
       .adjustments = session_->adjustments(),
       .priority = terms_.priority,
       .share = opens ? terms_.share : TenantShare{},
       .logprobs = session_->logprobs(),
       .ranks = ranks_},
      terms_.deadline,
      scope_.Reply<VerifyResult>([this, call = ++call_, sent = scope_.Now()](
                                     absl::StatusOr<VerifyResult> reply) {
        OnReply(call, sent, std::move(reply));
      }));
}

// The first call may still be in progress; the verifier then drops it for this
// one and reuses its computation.
void VerifierLink::AskAgain() {
  patience_ *= 2;
  Send();
}

void VerifierLink::OnReply(uint64_t call, absl::Time sent,
                           absl::StatusOr<VerifyResult> reply) {
  if (call != call_) return;
  ++call_;
  waits_ = false;
  if (!absl::IsUnavailable(reply.status())) {
    peer_.away_since = absl::InfiniteFuture();
  }
  scope_.CancelTimer(answer_due_);
  if (reply.ok()) {
    OnVerifyResult(*std::move(reply), scope_.Now() - sent);
  } else {
    OnError(reply.status());
  }
}

absl::Status VerifierLink::Check(const VerifyResult& verify_result) const {
  const int64_t vocab_size = terms_.model.vocab_size;
  RETURN_IF_ERROR(CheckVerifyResult(verify_result, round_, *tree_, vocab_size));
  const LogprobRequest wanted = session_->logprobs();
  RETURN_IF_ERROR(CheckLogprobs(verify_result.logprobs, wanted.emitted,
                                std::ssize(verify_result.tokens), vocab_size));
  RETURN_IF_ERROR(CheckLogprobs(verify_result.prompt_logprobs, wanted.prompt,
                                session_->length() - 1, vocab_size));
  const absl::Status ranks =
      CheckRanks("ranks", verify_result.ranks, vocab_size);
  return ranks.ok() ? ranks : BadVerifyResult(ranks.message());
}

void VerifierLink::OnVerifyResult(VerifyResult verify_result,
                                  absl::Duration round_trip) {
  const absl::Status fits = Check(verify_result);
  if (!fits.ok()) {
    Fail(fits);
    return;
  }
  held_length_ =
      session_->length() + static_cast<int64_t>(verify_result.tokens.size());
  std::exchange(
      then_, nullptr)(Verified{.verify_result = std::move(verify_result),
                               .round_trip = round_trip,
                               .failed = scope_.Now() - began_ - round_trip});
}

void VerifierLink::OnError(const absl::Status& status) {
  if (const auto held_length = HeldLength(status)) {
    OnStale(*held_length, status);
    return;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:  // the request's own deadline
                                               // ends it
      RetryLater(status);
      return;
    case absl::StatusCode::kResourceExhausted:
      if (session_->num_emitted() > 0) {
        RetryLater(status);
      } else {
        Fail(status);
      }
      return;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      Fail(status);
      return;
    default:
      Fail(absl::InternalError(absl::StrCat("verifier: ", status.ToString())));
  }
}

void VerifierLink::OnStale(int64_t held_length, const absl::Status& status) {
  if (held_length > session_->length()) {
    Fail(absl::InternalError(absl::StrCat("verifier: holds ", held_length,
                                          " tokens of ", session_->length())));
    return;
  }
  const auto info = peer_.info();
  if (info && !SameModel(info->model, terms_.model)) {
    const bool other_weights = info->model.name == terms_.model.name;
    Fail(absl::UnavailableError(absl::StrCat(
        "verifier restarted with another model: ", info->model.name,
        other_weights ? " of other weights or compute type" : "")));
    return;
  }
  held_length_ = held_length;
  if (fed_again_) {
    RetryLater(status);
    return;
  }
  fed_again_ = true;
  Send();
}

void VerifierLink::RetryLater(const absl::Status& status) {
  const absl::Time now = scope_.Now();
  if (num_retries_ == 0) failing_since_ = now;
  trouble_ = WithReason(
      absl::UnavailableError(absl::StrCat("verifier: ", status.message())),
      "VERIFIER_AWAY");
  absl::Time give_up = failing_since_ + peer_.retry.give_up_after;
  if (absl::IsUnavailable(status)) {
    absl::Time& away_since = peer_.away_since;
    away_since = std::min(away_since, now);
    give_up = std::min({give_up, away_since + peer_.retry.most_away,
                        terms_.deadline - kForTheCause});
  }
  if (now >= give_up) {
    Fail(trouble_);
    return;
  }
  const absl::Duration backoff = std::min(Backoff(), give_up - now);
  ++num_retries_;
  fed_again_ = false;
  scope_.PostAt(now + backoff, [this] { Send(); });
}

// Doubled at each retry, times 0.75 .. 1.25 by session and retry, so that the
// sessions of a verifier that comes back do not all arrive at once.
absl::Duration VerifierLink::Backoff() const {
  const VerifierRetry& retry = peer_.retry;
  const absl::Duration base =
      std::min(retry.max_backoff,
               retry.initial_backoff * std::exp2(std::min(num_retries_, 30)));
  const SequenceId id = session_->id();
  const uint32_t bits = Philox(
      {static_cast<uint32_t>(id.number), static_cast<uint32_t>(id.number >> 32),
       static_cast<uint32_t>(num_retries_), 0},
      id.coordinator_epoch)[0];
  return base * (0.75 + 0.5 * bits * 0x1p-32);
}

void VerifierLink::Fail(const absl::Status& status) {
  std::exchange(then_, nullptr)(status);
}

void VerifierLink::EndSequence(SequenceId sequence) {
  if (was_asked_) peer_.endpoint->EndSequence(sequence);
}

}  // namespace espalier::coordinator
