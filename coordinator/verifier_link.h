#ifndef ESPALIER_COORDINATOR_VERIFIER_LINK_H_
#define ESPALIER_COORDINATOR_VERIFIER_LINK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/spec/endpoints.h"
#include "common/spec/messages.h"
#include "common/spec/token_tree.h"
#include "coordinator/executor_scope.h"
#include "coordinator/session.h"

namespace espalier::coordinator {

// The verifier as all sessions share it.
struct VerifierPeer {
  VerifyEndpoint* endpoint = nullptr;
  // What the connected verifier says of itself; nullopt: not connected.
  // Called on the executor.
  std::function<std::optional<VerifierInfo>()> info;
};

struct VerifierRetry {
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
  absl::Duration give_up_after = absl::Minutes(2);  // without an answer
};

// One session's line to the verifier. Sends only what the verifier lacks, feeds
// it again when it has lost its state, and repeats a round (which is
// idempotent) while the verifier is away. Lives on the executor.
class VerifierLink {
 public:
  struct Options {
    const ExecutorScope* scope;  // ends with the session
    const VerifierPeer* peer;
    ModelIdentity model;  // of the verifier that admitted the request
    std::string rule;
    absl::Time deadline;  // of the request
    VerifierRetry retry;
  };
  struct Verified {
    Verdict verdict;            // fits the tree
    absl::Duration round_trip;  // of the call that succeeded
  };
  using Then = absl::AnyInvocable<void(absl::StatusOr<Verified>) &&>;

  explicit VerifierLink(Options options) : options_(std::move(options)) {}

  // Borrows session and tree until `then` has run. Errors are for the client:
  //   UNAVAILABLE: away for longer than retry.give_up_after.
  //   RESOURCE_EXHAUSTED: no room, and nothing has been emitted yet.
  //   INVALID_ARGUMENT, INTERNAL.
  // REQUIRES: the last call's `then` ran.
  void Verify(const Session& session, uint64_t round, const TokenTree& tree,
              FeatureRequest features, Then then);

  // Lets the verifier forget the sequence, if it knows it.
  void EndSequence(SequenceId sequence);

  // What keeps the round waiting; OK while a call is on its way.
  const absl::Status& trouble() const { return trouble_; }

 private:
  void Send();
  void OnReply(absl::Time sent, absl::StatusOr<Verdict> reply);
  void OnVerdict(Verdict verdict, absl::Duration round_trip);
  void OnError(const absl::Status& status);
  void OnStale(int64_t held_length, const absl::Status& status);
  void RetryLater(const absl::Status& status);
  absl::Duration Backoff() const;
  void Fail(const absl::Status& status);

  const Options options_;
  int64_t held_length_ = 0;
  bool was_asked_ = false;

  // Of the call in progress.
  const Session* session_ = nullptr;
  const TokenTree* tree_ = nullptr;
  FeatureRequest features_;
  uint64_t round_ = 0;
  Then then_;
  bool fed_again_ = false;
  int num_retries_ = 0;
  absl::Time failing_since_;
  absl::Status trouble_;
};

// A verdict is not trusted before it is held against what was asked.
// INTERNAL: what is wrong with it.
absl::Status CheckVerdict(const Verdict& verdict, uint64_t round,
                          const TokenTree& tree, int64_t vocab_size);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_VERIFIER_LINK_H_
