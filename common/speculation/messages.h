// The messages between the coordinator and its peers, as plain structs. Local
// engines use them directly; remote ones convert them at the edge.
#ifndef ESPALIER_COMMON_SPECULATION_MESSAGES_H_
#define ESPALIER_COMMON_SPECULATION_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/speculation/feature_ring.h"
#include "common/speculation/features.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/logit_adjustments.h"
#include "common/speculation/logprobs.h"
#include "common/speculation/pass_cost.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/token_ranks.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier {

inline constexpr size_t kMaxCacheSaltBytes = 256;  // of a client
// Limits what a coordinator puts before it.
inline constexpr size_t kMaxSaltPrefixBytes = 17;
inline constexpr int64_t kMaxPriority = 1000;

// Brings a peer's copy of a sequence up to date. The receiver holds
// `base_length` committed tokens with hash `prefix_hash` and drops any beyond
// them; `new_tokens` follow. The last token after the update is the root of
// this round's tree. An update with base_length 0 opens the sequence.
struct SequenceUpdate {
  SequenceId sequence;
  uint64_t round = 0;        // grows by one with every round of the sequence
  int64_t base_length = 0;   // committed tokens, prompt included
  uint64_t prefix_hash = 0;  // PrefixHash of the first base_length tokens
  std::vector<TokenId> new_tokens = {};
  SamplingParams sampling = {};
  // Sequences share cached work on equal prefixes only with those of the same
  // salt. Only an update with base_length 0 has one; at most kMaxCacheSaltBytes
  // + kMaxSaltPrefixBytes.
  std::string cache_salt = {};
  // The trace context of the client's request, in an update that opens the
  // sequence; or empty (trace_context.h).
  std::string traceparent = {};

  int64_t committed_length() const {
    return base_length + static_cast<int64_t>(new_tokens.size());
  }
};

struct DraftBudget {
  int64_t max_nodes = 0;  // root excluded; 0: update only, draft nothing
  int64_t max_depth = 0;
  // A level below the first that the text reaches with a smaller probability
  // does not pay; 0 .. 1. Not for trees that are sampled.
  float least_reach = 0;

  // This budget with one field changed.
  DraftBudget WithNodes(int64_t nodes) const {
    DraftBudget budget = *this;
    budget.max_nodes = nodes;
    return budget;
  }
  DraftBudget WithDepth(int64_t depth) const {
    DraftBudget budget = *this;
    budget.max_depth = depth;
    return budget;
  }
  DraftBudget WithReach(float reach) const {
    DraftBudget budget = *this;
    budget.least_reach = reach;
    return budget;
  }
};

struct ProposeRequest {
  SequenceUpdate update = {};
  DraftBudget budget;
  // Features of committed positions, with the taps of the drafter's contract.
  // They follow the rows that the drafter holds, or overlap them. After a gap,
  // the missing positions are no longer available.
  FeatureRows features = {};
  // Features in the verifier's ring instead, which the drafter may lack: those
  // up to a position before the root.
  StoredFeatures stored = {};
  // If not empty, the tree is for what follows the committed tokens and these,
  // a prediction of what the running verification will commit.
  std::vector<TokenId> lookahead = {};
  GrammarSpec grammar = {};   // the request's, for drafters that need it
  int64_t prompt_length = 0;  // of the request; 0: not known
  // Ranks, for a drafter that wants them: rows computed since it was asked
  // last, those of a lost answer twice. Some may be missing.
  TokenRanks ranks = {};
};

struct Proposal {
  uint64_t round = 0;            // the round of the request it answers
  int64_t committed_length = 0;  // committed tokens that the drafter now holds
  TokenTree tree = {};           // RootOnly if max_nodes was 0
  absl::Duration compute_time;   // inside the drafter, transport excluded
  // The part of compute_time that each level of the tree took, the first with
  // catching up; empty: the tree did not grow by levels.
  std::vector<absl::Duration> level_times = {};
  // The last of the request's `stored` were not there any more: send this
  // sequence's features from now on.
  bool lacks_features = false;
  // The ring of `stored` cannot be read here: send those of all sequences.
  bool ring_unreadable = false;
};

inline constexpr size_t kMaxTenantBytes = 128;

// Whom a sequence is run for.
struct TenantShare {
  std::string tenant = {};  // at most kMaxTenantBytes
  double weight = 1;        // among other tenants; finite and above 0
};

struct VerifyRequest {
  SequenceUpdate update;
  TokenTree tree;    // node 0: the last committed token
  std::string rule;  // name of a registered rule, or "auto"
  FeatureRequest features = {};
  // Largest length that the sequence may reach, prompt included; 0: unknown.
  // The verifier plans K/V cache room by it.
  int64_t max_length = 0;
  LogitAdjustments adjustments = {};
  // Lower is earlier: the sequence waits as if it had come so many seconds
  // later. At most kMaxPriority, and at least its negative.
  int64_t priority = 0;
  TenantShare share = {};  // of a request that opens the sequence
  LogprobRequest logprobs = {};
  RanksRequest ranks = {};
};

// The parts of the time inside the verifier. A pass that several sequences
// share counts in full for each, since each waits for all of it. If a pass has
// both prompt and tree of a sequence, its time is split between the two by
// rows. So the total is what the request waited, and sums over requests exceed
// the engine's time.
struct VerifyTimings {
  absl::Duration queue;      // waiting for the engine, or for other sequences
  absl::Duration room;       // of `queue`: waiting for room in the K/V pool
  absl::Duration measuring;  // of `queue`: measuring what a pass costs
  absl::Duration prefill;    // computing K/V of tokens that were not cached
  absl::Duration forward;    // the pass of the tree
  absl::Duration accept;     // the verification rule
  absl::Duration commit;     // compaction of the K/V cache

  absl::Duration total() const {
    return queue + prefill + forward + accept + commit;
  }
};

// Room of a verifier's target. Zeros: not known.
struct MemoryUse {
  int64_t kv_tokens = 0;          // that the K/V pool has room for
  int64_t kv_tokens_used = 0;     // by sequences
  int64_t kv_tokens_cached = 0;   // by none, kept for texts that begin alike
  int64_t device_bytes = 0;       // of the GPU; 0: it runs on a CPU
  int64_t device_bytes_used = 0;  // by all programs

  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

struct VerifyResult {
  uint64_t round = 0;
  std::vector<int32_t> path = {};  // accepted nodes in order, root excluded
  // [path.size() + 1]: accepted, then the bonus
  std::vector<TokenId> tokens = {};
  std::string rule;           // the rule that was applied
  int32_t near_ties = 0;      // emitted positions with a margin < kNearTie
  int64_t cached_tokens = 0;  // taken from a prefix cache, not computed
  VerifyTimings timings;
  PassCosts pass_costs = {};  // the latest table; empty: unchanged
  MemoryUse memory = {};      // as the round ended
  // The requested features, up to the position before the bonus token's.
  // Positions that were cached before the features were requested are not
  // computed again, so the rows may start later than requested.
  FeatureRows features = {};
  StoredSegments stored = {};  // those that it left in its ring
  // The requested log-probabilities of `tokens`, and of the committed tokens
  // from the second to the root.
  LogprobRows logprobs = {};
  LogprobRows prompt_logprobs = {};
  // The requested ranks. There are none if the request has a grammar, whose
  // masks leave out logits.
  TokenRanks ranks = {};
};

// Holds what a peer states about itself when a stream to it opens.
struct ModelIdentity {
  std::string name;
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
  // Hash of what the model computes; 0: unknown. See model_fingerprint.h.
  uint64_t weights_fingerprint = 0;
};

struct DrafterInfo {
  std::string name = {};
  std::string type = {};
  ModelIdentity model = {};  // the target it drafts for
  int64_t max_nodes = 0;
  int64_t max_depth = 0;
  FeatureContract features = {};  // wanted with every update
  // Engines with the same number share cores; 0: it shares them with none.
  uint64_t cpu_group = 0;
  bool supports_lookahead = false;  // accepts ProposeRequest::lookahead
  // Drafts only for requests with a grammar, by ProposeRequest::grammar.
  bool needs_grammar = false;
  // The device where it puts features (cuda::DeviceInfo::id); 0: they are on
  // the host. It reads rings of that device.
  uint64_t device_id = 0;
  RankNeed ranks = {};  // wanted with every update
};

struct VerifierInfo {
  ModelIdentity model;
  uint64_t epoch = 0;       // sampled at random when the verifier starts
  int64_t max_context = 0;  // tokens of prompt and output together
  int64_t max_tree_nodes = 0;
  std::vector<std::string> rules;
  // The ones among `rules` that read, above temperature 0, the distributions
  // that trees were sampled from.
  std::vector<std::string> distribution_rules;
  std::vector<TokenId> eos_token_ids;
  bool supports_grammars = false;  // LogitAdjustments::grammar
  std::string device;      // e.g. "cpu, float32, 2 threads, native avx2"
  PassCosts pass_costs;    // the latest known; empty: not measured
  MemoryUse memory;        // the latest known
  TargetShape shape;       // zeros: it returns no features
  uint64_t cpu_group = 0;  // as in DrafterInfo
  FeatureRingInfo ring = {};
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_MESSAGES_H_
