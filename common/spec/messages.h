// What the coordinator and its peers tell each other, as plain structs. The
// same structs serve local engines and, converted at the edge, the wire.
#ifndef ESPALIER_COMMON_SPEC_MESSAGES_H_
#define ESPALIER_COMMON_SPEC_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/spec/features.h"
#include "common/spec/pass_cost.h"
#include "common/spec/sampling_params.h"
#include "common/spec/token_tree.h"
#include "common/spec/types.h"

namespace espalier {

// Brings a peer's copy of a sequence up to date. The receiver holds
// `base_length` committed tokens with hash `prefix_hash` (what it holds beyond
// them is dropped); `new_tokens` follow. The last token after the update is
// the root of this round's tree. An update from base_length 0 opens the
// sequence.
struct SequenceUpdate {
  SequenceId sequence;
  uint64_t round = 0;        // grows by one with every round of the sequence
  int64_t base_length = 0;   // committed tokens, prompt included
  uint64_t prefix_hash = 0;  // PrefixHash of the first base_length tokens
  std::vector<TokenId> new_tokens;
  SamplingParams sampling;

  int64_t committed_length() const {
    return base_length + static_cast<int64_t>(new_tokens.size());
  }
};

struct DraftBudget {
  int64_t max_nodes = 0;  // root excluded; 0: a pure commit, no tree wanted
  int64_t max_depth = 0;
};

struct ProposeRequest {
  SequenceUpdate update;
  DraftBudget budget;
  // Of committed positions, as the drafter's contract wants them: what follows
  // those it holds, or overlaps them. Where they start behind a gap there are
  // no others any more.
  FeatureRows features = {};
  // The tree is for what follows the committed tokens and these, which are a
  // guess at what a verification will commit. Empty: for the committed tokens.
  std::vector<TokenId> guess = {};
};

struct Proposal {
  uint64_t round = 0;            // of the request it answers
  int64_t committed_length = 0;  // tokens the drafter now holds
  TokenTree tree;                // RootOnly for a pure commit
  absl::Duration compute_time;   // inside the drafter, without the wire
};

struct VerifyRequest {
  SequenceUpdate update;
  TokenTree tree;    // node 0: the last committed token
  std::string rule;  // name of a registered rule, or "auto"
  FeatureRequest features = {};
};

// Where the time inside the verifier went. A pass that several sequences share
// counts in full for each, since each waits for all of it; a sequence that has
// prompt and tree in one pass splits it between the two by rows. So the total
// is what the request waited, and sums over requests exceed the engine's time.
struct VerifyTimings {
  absl::Duration queue;    // waiting for the engine, or for others' walks
  absl::Duration prefill;  // K/V of tokens that it had not cached
  absl::Duration forward;  // the tree's pass
  absl::Duration accept;   // the rule's walk
  absl::Duration commit;   // compaction of the K/V cache

  absl::Duration total() const {
    return queue + prefill + forward + accept + commit;
  }
};

struct Verdict {
  uint64_t round = 0;
  std::vector<int32_t> path;    // accepted nodes in order, root excluded
  std::vector<TokenId> tokens;  // [path.size() + 1]: accepted, then the bonus
  std::string rule;             // that was applied
  int32_t near_ties = 0;        // emitted positions with a tiny top-2 margin
  VerifyTimings timings;
  PassCosts pass_costs;  // as of now; empty: nothing new
  // As the request wants them, up to the last position but the bonus token's.
  // What was cached before anybody asked is not computed again, so they may
  // start later than asked for.
  FeatureRows features;
};

// What a peer says of itself when a stream to it opens.
struct ModelIdentity {
  std::string name;
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
};

struct DrafterInfo {
  std::string name;
  std::string type;
  ModelIdentity model;  // the target it drafts for
  int64_t max_nodes = 0;
  int64_t max_depth = 0;
  FeatureContract features;  // wanted with every commit
  uint64_t site =
      0;  // engines of one site share cores; 0: nobody's but its own
  bool drafts_ahead = false;  // takes a guess
};

struct VerifierInfo {
  ModelIdentity model;
  uint64_t epoch = 0;       // drawn at random when the verifier starts
  int64_t max_context = 0;  // tokens of prompt and output together
  int64_t max_tree_nodes = 0;
  std::vector<std::string> rules;
  std::vector<TokenId> eos_token_ids;
  std::string device;    // e.g. "cpu, float32, 2 threads, native avx2"
  PassCosts pass_costs;  // the latest known; empty: not measured
  TargetShape shape;     // zeros: gives no features
  uint64_t site = 0;     // as a drafter's
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_MESSAGES_H_
