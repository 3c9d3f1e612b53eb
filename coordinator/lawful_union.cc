#include "coordinator/lawful_union.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace espalier::coordinator {
namespace {

int64_t NumAttempts(const TokenTree& tree) {
  return tree.claims_laws() ? std::ssize(tree.slots) : tree.num_nodes() - 1;
}

void AddTree(const DraftedTree& drafted, Twins twins, TokenTree& merged) {
  const TokenTree& tree = *drafted.tree;
  const uint64_t bit = uint64_t{1} << drafted.drafter;
  merged.provenance[0] |= bit;
  std::vector<int32_t> index = {0};  // [nodes]
  for (int32_t i = 1; i < tree.num_nodes(); ++i) {
    const int32_t parent = index[tree.parents[i]];
    int32_t node = TokenTree::kNoChild;
    if (twins == Twins::kMerge) node = merged.ChildWith(parent, tree.tokens[i]);
    if (node == TokenTree::kNoChild) {
      node = merged.Add(parent, tree.tokens[i], tree.log_probs[i]);
      merged.provenance.push_back(0);
    }
    // No tree has a child above its parent, so neither have their largest.
    merged.log_probs[node] =
        std::max(merged.log_probs[node], tree.log_probs[i]);
    merged.provenance[node] |= bit;
    index.push_back(node);
    if (!tree.claims_laws()) merged.slots.push_back({.node = node});
  }
  const int32_t first_law = merged.laws.size();
  for (int32_t i = 0; i < tree.laws.size(); ++i) merged.laws.Add(tree.laws[i]);
  for (const DraftSlot& slot : tree.slots) {
    const bool is_drawn = slot.law != DraftSlot::kChosen;
    merged.slots.push_back(
        {.node = index[slot.node],
         .law = is_drawn ? first_law + slot.law : DraftSlot::kChosen});
  }
}

}  // namespace

std::optional<TokenTree> LawfulUnion(const MergeInput& input, Twins twins) {
  std::vector<DraftedTree> sorted(input.trees.begin(), input.trees.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const DraftedTree& a, const DraftedTree& b) {
              return a.drafter < b.drafter;
            });
  int64_t attempts = 0;
  bool has_laws = false, all_trusted = true;
  for (const DraftedTree& drafted : sorted) {
    attempts += NumAttempts(*drafted.tree);
    has_laws |= drafted.tree->claims_laws();
    all_trusted &= drafted.trusted;
  }
  if (!has_laws || !all_trusted || attempts > input.max_nodes) {
    return std::nullopt;
  }
  TokenTree merged = TokenTree::RootOnly(input.root);
  merged.provenance = {0};
  for (const DraftedTree& drafted : sorted) AddTree(drafted, twins, merged);
  return merged;
}

}  // namespace espalier::coordinator
