#ifndef ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_
#define ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/speculation/token_tree.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// A draft tree as flow rules read it: for each node, the draws of its children,
// the distributions that they were sampled from, and the target's distribution
// on the node's *support*: all tokens that a draw could have produced. Rules
// treat all tokens outside the support alike, so their cost does not depend on
// the vocabulary.
//
// Buffers are kept between trees, so that a warm object does not allocate.
class FlowTree {
 public:
  // One sample of the draft tree.
  struct Draw {
    static constexpr int32_t kDeterministic = -1;
    int32_t child = 0;
    int32_t entry = 0;  // index of its token in the node's support
    int32_t distribution_entry =
        0;  // index of its token in its group's distribution
    int32_t group =
        kDeterministic;  // index of the distribution's group in the node's
    int32_t distribution = kDeterministic;  // see DistributionOf
    double drafted = 1;  // its probability under `distribution`
  };

  // A distribution over a node's support.
  struct Distribution {
    absl::Span<const int32_t> entries;     // [n] ascending, of the support
    absl::Span<const double> probability;  // [n] > 0, sum 1
  };

  // A node's draws from one distribution, in the order of the samples.
  struct Group {
    Distribution distribution;
    SampleDependence how = SampleDependence::kIndependent;
    absl::Span<const Draw> draws;  // [1 ..]
  };

  // Borrows the tree. A tree without samples counts as deterministic. Only the
  // first of duplicate deterministic nodes is kept. REQUIRES: `tree` is valid.
  void Build(const TokenTree& tree);

  // Sets `target`. Errors are those of `distributions`. REQUIRES: Build.
  absl::Status GatherTarget(TargetDistributions& distributions);

  int32_t num_nodes() const { return static_cast<int32_t>(depths_.size()); }
  int32_t num_layers() const {
    return static_cast<int32_t>(layers_.size()) - 1;
  }
  int32_t depth(int32_t node) const { return depths_[node]; }
  // Returns the nodes of a depth, ascending.
  absl::Span<const int32_t> layer(int32_t depth) const {
    return Part(by_depth_, layers_, depth);
  }

  // Draws grouped by distribution, then deterministic children. A leaf has
  // none.
  absl::Span<const Draw> draws(int32_t node) const {
    return Part(draws_, draw_ends_, node);
  }
  bool is_leaf(int32_t node) const { return draws(node).empty(); }
  // Groups are in the order of their first samples.
  int32_t num_groups(int32_t node) const {
    return group_ends_[node + 1] - group_ends_[node];
  }
  Group group(int32_t node, int32_t index) const;
  absl::Span<const Draw> deterministic(int32_t node) const;
  // Returns the distribution that a draw was sampled from, given the draws
  // before it: its group's, less their tokens if sampled without replacement.
  // For a deterministic child its token has probability 1.
  Distribution DistributionOf(const Draw& draw) const;

  // First index of the node's support in columns over all supports.
  int32_t support_begin(int32_t node) const { return support_ends_[node]; }
  int32_t support_size(int32_t node) const {
    return support_ends_[node + 1] - support_ends_[node];
  }
  int32_t total_support() const { return static_cast<int32_t>(tokens_.size()); }
  template <typename Column>  // [total_support] -> [support_size]
  auto OfNode(Column& column, int32_t node) const {
    return absl::MakeSpan(column).subspan(support_begin(node),
                                          support_size(node));
  }
  absl::Span<const TokenId> support(int32_t node) const {
    return OfNode(tokens_, node);  // ascending
  }
  absl::Span<const double> target(int32_t node) const {
    return OfNode(target_, node);
  }
  // Returns the target's mass outside the support.
  double target_outside(int32_t node) const { return outside_[node]; }

 private:
  struct DistributionRange {
    int32_t begin, end;  // in entries_ and probabilities_
  };
  struct GroupRange {
    int32_t distribution;  // in distributions_
    SampleDependence how;
    int32_t draws_begin, draws_end;  // in draws_
  };

  // ends[i] .. ends[i + 1] of a column.
  template <typename T>
  static absl::Span<const T> Part(const std::vector<T>& column,
                                  const std::vector<int32_t>& ends, int32_t i) {
    return absl::MakeConstSpan(column).subspan(ends[i], ends[i + 1] - ends[i]);
  }

  void SortByDepth(const TokenTree& tree);
  void SortSamples(const TokenTree& tree);
  void AddNode(const TokenTree& tree, int32_t node);
  void AddSupport(const TokenTree& tree, absl::Span<const DraftSample> samples);
  void AddGroup(const TokenTree& tree, int32_t node, int32_t distribution,
                absl::Span<const DraftSample> samples);
  int32_t AddDistributionWithout(int32_t distribution, int32_t entry);
  Distribution DistributionAt(int32_t distribution) const;
  void AddDeterministic(const TokenTree& tree, int32_t node,
                        absl::Span<const DraftSample> samples);
  int32_t EntryOf(int32_t node, TokenId token) const;

  std::vector<int32_t> depths_;    // [nodes]
  std::vector<int32_t> by_depth_;  // [nodes]
  std::vector<int32_t> layers_;    // [layers + 1] ends in by_depth_

  std::vector<int32_t> sample_order_;  // [samples] of the tree's, by parent
  std::vector<DraftSample> samples_;   // [samples] in that order
  std::vector<int32_t> sample_ends_;   // [nodes + 1]

  std::vector<Draw> draws_;
  std::vector<int32_t> draw_ends_;  // [nodes + 1]
  std::vector<GroupRange> groups_;
  std::vector<int32_t> group_ends_;  // [nodes + 1]
  std::vector<DistributionRange> distributions_;
  std::vector<int32_t> entries_;       // of all distributions
  std::vector<double> probabilities_;  // of all distributions

  std::vector<int32_t> support_ends_;  // [nodes + 1]
  std::vector<TokenId> tokens_;        // [total_support]
  std::vector<double> target_;         // [total_support]
  std::vector<double> outside_;        // [nodes]
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_
