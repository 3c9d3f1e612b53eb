#include "verifier/flow/merge_twins.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Draws without replacement stay with those that they were made with.
bool Same(const DraftLaw& a, const DraftLaw& b) {
  return a.draws == LawDraws::kIndependent &&
         b.draws == LawDraws::kIndependent && a.tokens == b.tokens &&
         a.weights == b.weights;
}

// The law's index among `merged`, which gains it if it is new.
int32_t Merge(const DraftLaw& law, DraftLaws& merged) {
  for (int32_t i = 0; i < merged.size(); ++i) {
    if (Same(law, merged[i])) return i;
  }
  return merged.Add(law);
}

}  // namespace

MergedTwins MergeTwins(const TokenTree& tree) {
  MergedTwins merged = {
      .tree = TokenTree::RootOnly(tree.tokens[0]), .first = {0}, .into = {0}};
  for (int32_t i = 1; i < tree.num_nodes(); ++i) {
    const int32_t parent = merged.into[tree.parents[i]];
    int32_t node = merged.tree.ChildWith(parent, tree.tokens[i]);
    if (node == TokenTree::kNoChild) {
      // Twins may disagree on their log-probability; it must not rise.
      node = merged.tree.Add(
          parent, tree.tokens[i],
          std::min(tree.log_probs[i], merged.tree.log_probs[parent]));
      merged.first.push_back(i);
    }
    merged.into.push_back(node);
  }
  std::vector<int32_t> law_of;  // [laws]
  for (int32_t law = 0; law < tree.laws.size(); ++law) {
    law_of.push_back(Merge(tree.laws[law], merged.tree.laws));
  }
  for (const DraftSlot& slot : tree.slots) {
    const bool is_drawn = slot.law != DraftSlot::kChosen;
    merged.tree.slots.push_back(
        {.node = merged.into[slot.node],
         .law = is_drawn ? law_of[slot.law] : DraftSlot::kChosen});
  }
  return merged;
}

}  // namespace espalier::verifier
