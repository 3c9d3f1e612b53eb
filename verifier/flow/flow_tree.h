#ifndef ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_
#define ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/spec/token_tree.h"
#include "verifier/verification_rule.h"

namespace espalier::verifier {

// A draft tree as flow rules read it: by node the attempts at a child, the laws
// they were drawn from, and the target's law on the node's *support*, which is
// every token that an attempt could have found. Outside of it rules treat all
// tokens alike, so the vocabulary does not enter their cost.
//
// Its buffers are kept from tree to tree, so that a warm one does not allocate.
class FlowTree {
 public:
  // One slot of the draft tree.
  struct Attempt {
    static constexpr int32_t kChosen = -1;
    int32_t child = 0;
    int32_t entry = 0;        // its token in the node's support
    int32_t law_entry = 0;    // its token in its group's law
    int32_t group = kChosen;  // index of the law's group in the node's
    int32_t law = kChosen;    // see LawOf
    double drafted = 1;       // its probability under that
  };

  // A law over a node's support.
  struct Law {
    absl::Span<const int32_t> entries;     // [n] ascending, of the support
    absl::Span<const double> probability;  // [n] > 0, sum 1
  };

  // A node's draws from one law, in the order of the slots.
  struct Group {
    Law law;
    LawDraws how = LawDraws::kIndependent;
    absl::Span<const Attempt> draws;  // [1 ..]
  };

  // Borrows the tree. A tree without slots counts as chosen. Among twins that
  // were chosen the first alone is kept. REQUIRES: `tree` is valid.
  void Build(const TokenTree& tree);

  // Sets `target`. Errors are those of `laws`. REQUIRES: Build.
  absl::Status GatherTarget(TargetLaws& laws);

  int32_t num_nodes() const { return static_cast<int32_t>(depths_.size()); }
  int32_t num_layers() const {
    return static_cast<int32_t>(layers_.size()) - 1;
  }
  int32_t depth(int32_t node) const { return depths_[node]; }
  // The nodes of a depth, ascending.
  absl::Span<const int32_t> layer(int32_t depth) const {
    return Part(by_depth_, layers_, depth);
  }

  // Draws, law by law, then chosen children. A leaf has none.
  absl::Span<const Attempt> attempts(int32_t node) const {
    return Part(attempts_, attempt_ends_, node);
  }
  bool is_leaf(int32_t node) const { return attempts(node).empty(); }
  // In the order of their first slots.
  int32_t num_groups(int32_t node) const {
    return group_ends_[node + 1] - group_ends_[node];
  }
  Group group(int32_t node, int32_t index) const;
  absl::Span<const Attempt> chosen(int32_t node) const;
  // That an attempt was drawn from, given those before it: its group's, without
  // their tokens if they are not replaced. A chosen child's is certain.
  Law LawOf(const Attempt& attempt) const;
  // How often a node was found.
  int32_t num_finds(int32_t node) const { return finds_[node]; }

  // Where the node's support lies in columns over all supports.
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
  // The target's mass outside the support.
  double target_outside(int32_t node) const { return outside_[node]; }

 private:
  struct LawRange {
    int32_t begin, end;  // in entries_ and probabilities_
  };
  struct GroupRange {
    int32_t law;  // in laws_
    LawDraws how;
    int32_t draws_begin, draws_end;  // in attempts_
  };

  // ends[i] .. ends[i + 1] of a column.
  template <typename T>
  static absl::Span<const T> Part(const std::vector<T>& column,
                                  const std::vector<int32_t>& ends, int32_t i) {
    return absl::MakeConstSpan(column).subspan(ends[i], ends[i + 1] - ends[i]);
  }

  void SortByDepth(const TokenTree& tree);
  void SortSlots(const TokenTree& tree);
  void AddNode(const TokenTree& tree, int32_t node);
  void AddSupport(const TokenTree& tree, absl::Span<const DraftSlot> slots);
  void AddGroup(const TokenTree& tree, int32_t node, int32_t law,
                absl::Span<const DraftSlot> slots);
  int32_t AddLawWithout(int32_t law, int32_t entry);
  Law LawAt(int32_t law) const;
  void AddChosen(const TokenTree& tree, int32_t node,
                 absl::Span<const DraftSlot> slots);
  int32_t EntryOf(int32_t node, TokenId token) const;

  std::vector<int32_t> depths_;    // [nodes]
  std::vector<int32_t> by_depth_;  // [nodes]
  std::vector<int32_t> layers_;    // [layers + 1] ends in by_depth_
  std::vector<int32_t> finds_;     // [nodes]

  std::vector<int32_t> slot_order_;  // [slots] of the tree's, by parent
  std::vector<DraftSlot> slots_;     // [slots] in that order
  std::vector<int32_t> slot_ends_;   // [nodes + 1]

  std::vector<Attempt> attempts_;
  std::vector<int32_t> attempt_ends_;  // [nodes + 1]
  std::vector<GroupRange> groups_;
  std::vector<int32_t> group_ends_;  // [nodes + 1]
  std::vector<LawRange> laws_;
  std::vector<int32_t> entries_;       // of all laws
  std::vector<double> probabilities_;  // of all laws

  std::vector<int32_t> support_ends_;  // [nodes + 1]
  std::vector<TokenId> tokens_;        // [total_support]
  std::vector<double> target_;         // [total_support]
  std::vector<double> outside_;        // [nodes]
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_FLOW_FLOW_TREE_H_
