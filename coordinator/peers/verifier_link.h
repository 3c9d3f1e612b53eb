#ifndef ESPALIER_COORDINATOR_PEERS_VERIFIER_LINK_H_
#define ESPALIER_COORDINATOR_PEERS_VERIFIER_LINK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/messages.h"
#include "common/speculation/token_tree.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

struct VerifierRetry {
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  // How long the verifier may be away before rounds fail, those that have begun
  // and those that begin.
  absl::Duration most_away = absl::Seconds(10);
  absl::Duration give_up_after = absl::Minutes(2);  // without another answer
  // A call without an answer is repeated after this time, then after twice as
  // long each time: the answer may be lost.
  absl::Duration ask_again_after = absl::Seconds(10);
};

// The verifier, shared by all sessions.
struct VerifierPeer {
  VerifyEndpoint* endpoint = nullptr;
  // Description of the connected verifier; nullopt: not connected. Called on
  // any thread.
  std::function<std::optional<VerifierInfo>()> info;
  VerifierRetry retry = {};
  // Since when no call has reached it; infinite: the latest one has. Written by
  // the links, on the executor.
  mutable absl::Time away_since = absl::InfiniteFuture();
};

// A client does not read what comes at its deadline, so a request that waits
// for the verifier ends earlier than that, with the cause.
inline constexpr absl::Duration kForTheCause = absl::Milliseconds(250);

// One session's link to the verifier. Sends only the tokens that the verifier
// lacks, feeds it again when it has lost its state, and repeats a round (which
// is idempotent) while the verifier is away or has not answered for long. Lives
// on the executor.
class VerifierLink {
 public:
  // Holds what each verification of the session says.
  struct Terms {
    ModelIdentity model;  // of the verifier that admitted the request
    std::string rule;
    absl::Time deadline;  // of the request
    int64_t priority = 0;
    TenantShare share = {};
  };
  struct Verified {
    VerifyResult verify_result;  // fits the tree
    absl::Duration round_trip;   // of the call that succeeded
    absl::Duration failed;       // earlier calls, and the pauses after them
  };
  using Then = absl::AnyInvocable<void(absl::StatusOr<Verified>) &&>;

  // Borrows scope and peer; the scope ends with the session.
  VerifierLink(const ExecutorScope* scope, const VerifierPeer* peer,
               Terms terms)
      : scope_(*scope), peer_(*peer), terms_(std::move(terms)) {}

  // Borrows session and tree until `then` has run. Errors are for the client:
  //   UNAVAILABLE: away for longer than VerifierRetry::most_away, or no answer
  //   for
  //     longer than VerifierRetry::give_up_after.
  //   RESOURCE_EXHAUSTED: no room, and nothing has been emitted yet.
  //   OUT_OF_RANGE: the verifier no longer has room for a text of this length.
  //   INVALID_ARGUMENT, INTERNAL.
  // REQUIRES: `then` of the last call ran.
  void Verify(const Session& session, uint64_t round, const TokenTree& tree,
              FeatureRequest features, RanksRequest ranks, Then then);

  // Tells the verifier to forget the sequence, if it knows it.
  void EndSequence(SequenceId sequence);

  // Why the round waits; OK while a call is in progress.
  const absl::Status& trouble() const { return trouble_; }
  // How long a call has been without an answer.
  absl::Duration silence() const {
    return waits_ ? scope_.Now() - sent_ : absl::ZeroDuration();
  }

 private:
  void Send();
  void AskAgain();
  void OnReply(uint64_t call, absl::Time sent,
               absl::StatusOr<VerifyResult> reply);
  // Against the call in progress. INTERNAL: what is wrong.
  absl::Status Check(const VerifyResult& verify_result) const;
  void OnVerifyResult(VerifyResult verify_result, absl::Duration round_trip);
  void OnError(const absl::Status& status);
  void OnStale(int64_t held_length, const absl::Status& status);
  void RetryLater(const absl::Status& status);
  absl::Duration Backoff() const;
  void Fail(const absl::Status& status);

  const ExecutorScope& scope_;
  const VerifierPeer& peer_;
  const Terms terms_;
  int64_t held_length_ = 0;
  bool was_asked_ = false;

  // State of the call in progress.
  const Session* session_ = nullptr;
  const TokenTree* tree_ = nullptr;
  FeatureRequest features_;
  RanksRequest ranks_;
  uint64_t round_ = 0;
  absl::Time began_;
  bool waits_ = false;  // for an answer
  absl::Time sent_;     // the first call without an answer, if it waits
  Then then_;
  uint64_t call_ = 0;  // counts the calls; answers to earlier ones are dropped
  uint64_t answer_due_ = 0;  // the timer of AskAgain
  absl::Duration patience_;
  bool fed_again_ = false;
  int num_retries_ = 0;
  absl::Time failing_since_;
  absl::Status trouble_;
};

// Checks a result against the request before it is used. INTERNAL: what is
// wrong with it.
absl::Status CheckVerifyResult(const VerifyResult& verify_result,
                               uint64_t round, const TokenTree& tree,
                               int64_t vocab_size);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_PEERS_VERIFIER_LINK_H_
