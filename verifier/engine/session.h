#ifndef ESPALIER_VERIFIER_ENGINE_SESSION_H_
#define ESPALIER_VERIFIER_ENGINE_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/token_tree.h"
#include "verifier/engine/pass_company.h"
#include "verifier/engine/tree_masker.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

using Rules = std::map<std::string, std::unique_ptr<VerificationRule>>;

// A place in a queue, lowest first: a time, and a number for equal times. A
// request of another priority takes the place of one that comes so many
// seconds later or earlier, so none is overtaken for ever.
using Place = std::pair<absl::Time, uint64_t>;

// A request without an answer.
struct Job {
  VerifyRequest request;
  absl::Time deadline;
  Done<VerifyResult> done;
  absl::Time waiting_since;
  VerifyTimings timings = {};  // of its turns so far
  std::optional<absl::Time> without_room_since = {};
  int64_t cached_tokens = 0;                // taken from shared prefixes
  Place turn = {};                          // in the queue for passes
  const Rules::value_type* rule = nullptr;  // that is applied
  // Why that is not the requested rule; empty: it is.
  absl::string_view unsupported = {};
  bool compared = false;  // see RuleSelection
  // The tree that is verified, once a request with a grammar has its masks.
  std::optional<MaskedTree> masked = {};
};

// A sequence that the verifier holds. Used on the engine's executor.
struct Session {
  Place age;                    // in the queue for room
  absl::Duration delay;         // by its priority
  TenantShare share;            // whom it is run for
  bool beyond_share = false;    // see RoomClaim
  CacheId cache = 0;            // K/V of all tokens but the last, or fewer
  bool admitted = false;        // to the K/V pool
  std::vector<TokenId> tokens;  // committed
  std::string salt;             // see SequenceUpdate::cache_salt
  bool looked_up = false;       // its prefix was, as the metrics count it
  bool was_preempted = false;   // what it takes again is no hit
  int64_t max_length = 0;       // that `tokens` may reach
  std::unique_ptr<Job> job;     // at most one
  VerifyRequest asked;          // the last admitted request, unchanged
  std::optional<VerifyResult> last_verify_result;
  // `wanted` are those of the last request, `taps` all points that it names.
  // `features` are of the positions cached since the last result, up to the
  // last position cached since then, or not begun.
  FeatureRequest wanted;
  std::vector<int32_t> taps;
  FeatureRows features;
  std::vector<StoredContract> stored;  // since the last result, in the ring
  FeatureRows open_block;  // committed, not a whole block of FeatureCache
  // The log-probabilities of the last request's prompt, as far as its tokens
  // are cached.
  LogprobRows prompt_logprobs;
  // Since the last result. Rows of the prompt are ranked once, those before
  // `ranked_end` were.
  TokenRanks ranks;
  int64_t ranked_end = 1;  // the first token has no other before it
  absl::Time last_used;
  // When the last result was sent, until the next request; InfinitePast:
  // there is none.
  absl::Time answered = absl::InfinitePast();
  int64_t answered_rows = 0;
  ReturnTime return_time;

  // Returns the tokens before the root. REQUIRES: there is a token.
  absl::Span<const TokenId> BeforeRoot() const {
    return absl::MakeConstSpan(tokens).first(tokens.size() - 1);
  }
  bool WantsPromptLogprobs() const {
    return job != nullptr && job->request.logprobs.prompt.has_value();
  }

  // Handles a request that repeats the waiting or the answered one. Returns
  // whether it does.
  bool Repeat(Job& job);
  // Notes that the session's coordinator asked again.
  void ObserveReturn(absl::Time asked_at);
  // Replaces the tokens from update.base_length on. Returns how many tokens
  // before the root are as they were.
  int64_t ReplaceTokens(const SequenceUpdate& update);
  // Answers the request, if there is one.
  void Answer(absl::StatusOr<VerifyResult> verify_result);
};

// Keeps the first `size` nodes of a tree, which are a valid one. Its
// distributions stay only with the whole tree. REQUIRES: size >= 1.
void CutTree(TokenTree& tree, int64_t size);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_SESSION_H_
