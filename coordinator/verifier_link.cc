#include "coordinator/verifier_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/spec/gumbel_noise.h"
#include "common/spec/stale_base.h"

namespace espalier::coordinator {
namespace {

absl::Status BadVerdict(absl::string_view what) {
  return absl::InternalError(absl::StrCat("verdict: ", what));
}

bool SameModel(const ModelIdentity& a, const ModelIdentity& b) {
  return a.name == b.name && a.vocab_size == b.vocab_size &&
         a.tokenizer_fingerprint == b.tokenizer_fingerprint;
}

}  // namespace

absl::Status CheckVerdict(const Verdict& verdict, uint64_t round,
                          const TokenTree& tree, int64_t vocab_size) {
  if (verdict.round != round) {
    return BadVerdict(
        absl::StrCat("round ", verdict.round, ", expected ", round));
  }
  if (verdict.tokens.size() != verdict.path.size() + 1) {
    return BadVerdict(absl::StrCat(verdict.tokens.size(), " tokens for ",
                                   verdict.path.size(), " accepted nodes"));
  }
  int32_t parent = 0;
  for (size_t i = 0; i < verdict.path.size(); ++i) {
    const int32_t node = verdict.path[i];
    if (node < 1 || node >= tree.num_nodes() || tree.parents[node] != parent) {
      return BadVerdict(
          absl::StrCat("node ", node, " is not a child of node ", parent));
    }
    if (verdict.tokens[i] != tree.tokens[node]) {
      return BadVerdict(absl::StrCat("token ", verdict.tokens[i],
                                     " is not that of node ", node));
    }
    parent = node;
  }
  const TokenId bonus = verdict.tokens.back();
  if (bonus < 0 || bonus >= vocab_size) {
    return BadVerdict(absl::StrCat("token ", bonus,
                                   " outside the vocabulary of ", vocab_size));
  }
  return absl::OkStatus();
}

void VerifierLink::Verify(const Session& session, uint64_t round,
                          const TokenTree& tree, FeatureRequest features,
                          Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  session_ = &session;
  tree_ = &tree;
  features_ = std::move(features);
  round_ = round;
  then_ = std::move(then);
  fed_again_ = false;
  num_retries_ = 0;
  Send();
}

void VerifierLink::Send() {
  was_asked_ = true;
  trouble_ = absl::OkStatus();
  options_.peer->endpoint->Verify(
      {.update = session_->UpdateFrom(held_length_, round_),
       .tree = *tree_,
       .rule = options_.rule,
       .features = features_},
      options_.deadline,
      options_.scope->Reply<Verdict>(
          [this, sent = options_.scope->Now()](absl::StatusOr<Verdict> reply) {
            OnReply(sent, std::move(reply));
          }));
}

void VerifierLink::OnReply(absl::Time sent, absl::StatusOr<Verdict> reply) {
  if (reply.ok()) {
    OnVerdict(*std::move(reply), options_.scope->Now() - sent);
  } else {
    OnError(reply.status());
  }
}

void VerifierLink::OnVerdict(Verdict verdict, absl::Duration round_trip) {
  const absl::Status fits =
      CheckVerdict(verdict, round_, *tree_, options_.model.vocab_size);
  if (!fits.ok()) {
    Fail(fits);
    return;
  }
  held_length_ =
      session_->length() + static_cast<int64_t>(verdict.tokens.size());
  std::exchange(then_, nullptr)(
      Verified{.verdict = std::move(verdict), .round_trip = round_trip});
}

void VerifierLink::OnError(const absl::Status& status) {
  if (const auto held_length = HeldLength(status)) {
    OnStale(*held_length, status);
    return;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:  // ours will say so itself
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
  const auto info = options_.peer->info();
  if (info && !SameModel(info->model, options_.model)) {
    Fail(absl::UnavailableError(absl::StrCat(
        "verifier restarted with another model: ", info->model.name)));
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
  const absl::Time now = options_.scope->Now();
  if (num_retries_ == 0) failing_since_ = now;
  trouble_ =
      absl::UnavailableError(absl::StrCat("verifier: ", status.message()));
  if (now - failing_since_ >= options_.retry.give_up_after) {
    Fail(trouble_);
    return;
  }
  const absl::Duration backoff = Backoff();
  ++num_retries_;
  fed_again_ = false;
  options_.scope->PostAt(now + backoff, [this] { Send(); });
}

// Doubled at each retry, times 0.75 .. 1.25 by session and retry, so that the
// sessions of a verifier that comes back do not all arrive at once.
absl::Duration VerifierLink::Backoff() const {
  const VerifierRetry& retry = options_.retry;
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
  if (was_asked_) options_.peer->endpoint->EndSequence(sequence);
}

}  // namespace espalier::coordinator
