#ifndef ESPALIER_COMMON_SPECULATION_TOKEN_TREE_H_
#define ESPALIER_COMMON_SPECULATION_TOKEN_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/speculation/draft_distributions.h"
#include "common/speculation/types.h"

namespace espalier {

inline constexpr int32_t kNoParent = -1;

// A draft tree: candidate continuations of the committed tokens, as columns of
// num_nodes() entries in topological order. Node 0 is the root: the last
// committed token, whose K/V the target has not cached yet. Attention masks and
// positions follow from `parents` and are never stored or sent.
//
// A default-constructed tree is empty (not valid); RootOnly() is the smallest
// valid one. Siblings may repeat a token (the disjoint union of several trees):
// a rule must then follow every duplicate.
struct TokenTree {
  struct Limits {
    int64_t max_nodes = 0;  // root excluded
    int64_t max_depth = 0;  // of the root: 0
    int64_t vocab_size = 0;
  };

  std::vector<TokenId> tokens;   // [num_nodes]
  std::vector<int32_t> parents;  // [num_nodes], < own index; kNoParent at 0
  // [num_nodes] the drafter's log-probability of the path to the node, <= 0 and
  // never above the parent's. For ranking only: no rule reads it.
  std::vector<float> log_probs;
  // [num_nodes] bit h: the h-th drafter of the round proposed the node. Empty
  // in the tree of a single drafter.
  std::vector<uint64_t> provenance = {};

  // How the nodes were proposed, for rules that read distributions. Empty: the
  // tree states no distributions, and all nodes count as deterministic.
  // Otherwise every node except the root has a sample for each time that it was
  // proposed: two if two draws gave it, or a draw and a deterministic choice.
  //
  // Code that fills this in guarantees that
  // * each draw comes from its distribution, given the tokens of the ancestors,
  //   independent of the other draws and of the verifier's noise;
  // * no draw is missing;
  // * deterministic nodes, the shape of the tree and the order of the samples
  //   do not depend on what was sampled for the same node or below.
  // Code that prunes, reorders or picks a tree by the tokens that were sampled
  // must clear both columns.

  // Most samples per node, on average.
  static constexpr int64_t kMaxSamplesPerNode = 64;
  std::vector<DraftSample> samples = {};
  DraftDistributions distributions = {};

  static TokenTree RootOnly(TokenId root);

  int64_t num_nodes() const { return static_cast<int64_t>(tokens.size()); }

  // Appends a node and returns its index. REQUIRES: 0 <= parent < num_nodes().
  int32_t Add(int32_t parent, TokenId token, float log_prob);

  // Keeps the first `count` nodes, without distributions. REQUIRES: 1 <= count
  // <= num_nodes().
  void Cut(int64_t count);

  // The first child of a node with this token, or kNoChild. O(n).
  static constexpr int32_t kNoChild = -1;
  int32_t ChildWith(int32_t parent, TokenId token) const;

  // Returns the subtree of a node, which becomes the root. Log-probabilities
  // become relative to it; distributions and provenance are dropped. O(n).
  TokenTree Subtree(int32_t node) const;

  bool claims_distributions() const { return !samples.empty(); }
  void DropDistributions();

  // Checks the tree. This is the trust boundary for trees from outside: nothing
  // downstream re-checks. O(n). INVALID_ARGUMENT names the column, the node and
  // the limit.
  absl::Status Validate(const Limits& limits) const;

  // [num_nodes] distance from the root. REQUIRES: valid.
  std::vector<int32_t> Depths() const;

  // Node indices from the root's child down to `node`; empty for the root.
  std::vector<int32_t> PathTo(int32_t node) const;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_TOKEN_TREE_H_
