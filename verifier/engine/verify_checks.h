// Checks of a request before it may change a session.
#ifndef ESPALIER_VERIFIER_ENGINE_VERIFY_CHECKS_H_
#define ESPALIER_VERIFIER_ENGINE_VERIFY_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/speculation/messages.h"

namespace espalier::verifier {

struct VerifyLimits {
  int64_t vocab_size = 0;
  int64_t max_context = 0;     // tokens of a sequence
  int64_t max_tree_nodes = 0;  // root excluded
  TargetShape shape;
};

// INVALID_ARGUMENT names the field and the limit. OUT_OF_RANGE: more tokens
// than a sequence may have.
absl::Status CheckVerifyRequest(const VerifyRequest& request,
                                const VerifyLimits& limits);

// Checks that the update continues the held tokens. FAILED_PRECONDITION carries
// the length from which to send again: the held length if the update starts
// after it, 0 if the tokens differ.
absl::Status CheckBase(absl::Span<const TokenId> held,
                       const SequenceUpdate& update);

// INVALID_ARGUMENT: the tree's root is not the last committed token. REQUIRES:
// the request and its base passed the checks above.
absl::Status CheckRoot(absl::Span<const TokenId> held,
                       const VerifyRequest& request);

// Returns whether two requests of one round have the same text, tree, sampling,
// rule and features. Only then is one answered with the other's result.
bool AskTheSame(const VerifyRequest& a, const VerifyRequest& b);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_VERIFY_CHECKS_H_
