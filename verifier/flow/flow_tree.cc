#include "verifier/flow/flow_tree.h"

#include <algorithm>
#include <numeric>

#include "common/base/status_macros.h"

namespace espalier::verifier {
namespace {

// A stable counting sort: `order` becomes 0 .. size - 1 by key(i) < num_keys,
// and ends[k] .. ends[k + 1] the part of it with key k.
template <typename Key>
void SortByKey(int32_t size, int32_t num_keys, Key key,
               std::vector<int32_t>& order, std::vector<int32_t>& ends) {
  ends.assign(num_keys + 2, 0);
  for (int32_t i = 0; i < size; ++i) ++ends[key(i) + 2];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  order.resize(size);  // ends[k + 1] is where the next with key k goes
  for (int32_t i = 0; i < size; ++i) order[ends[key(i) + 1]++] = i;
  ends.pop_back();
}

bool HasLaw(absl::Span<const DraftSlot> slots, int32_t law) {
  return std::any_of(slots.begin(), slots.end(),
                     [law](const DraftSlot& slot) { return slot.law == law; });
}

}  // namespace

void FlowTree::Build(const TokenTree& tree) {
  SortByDepth(tree);
  SortSlots(tree);
  attempts_.clear();
  groups_.clear();
  laws_.clear();
  entries_.clear();
  probabilities_.clear();
  tokens_.clear();
  for (auto* ends : {&attempt_ends_, &group_ends_, &support_ends_}) {
    ends->assign(1, 0);
  }
  for (int32_t node = 0; node < num_nodes(); ++node) AddNode(tree, node);
}

void FlowTree::SortByDepth(const TokenTree& tree) {
  depths_.assign(tree.num_nodes(), 0);
  int32_t deepest = 0;
  for (int32_t i = 1; i < num_nodes(); ++i) {
    depths_[i] = depths_[tree.parents[i]] + 1;
    deepest = std::max(deepest, depths_[i]);
  }
  SortByKey(
      num_nodes(), deepest + 1, [this](int32_t i) { return depths_[i]; },
      by_depth_, layers_);
}

void FlowTree::SortSlots(const TokenTree& tree) {
  const bool all_chosen = !tree.claims_laws();
  const auto slot = [&tree, all_chosen](int32_t i) {
    return all_chosen ? DraftSlot{.node = i + 1} : tree.slots[i];
  };
  const auto size =
      all_chosen ? num_nodes() - 1 : static_cast<int32_t>(tree.slots.size());
  SortByKey(
      size, num_nodes(),
      [&tree, slot](int32_t i) { return tree.parents[slot(i).node]; },
      slot_order_, slot_ends_);
  finds_.assign(num_nodes(), 0);
  slots_.clear();
  for (int32_t i : slot_order_) {
    slots_.push_back(slot(i));
    ++finds_[slots_.back().node];
  }
}

void FlowTree::AddNode(const TokenTree& tree, int32_t node) {
  const absl::Span<const DraftSlot> slots = Part(slots_, slot_ends_, node);
  AddSupport(tree, slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    const int32_t law = slots[i].law;
    if (law == DraftSlot::kChosen || HasLaw(slots.first(i), law)) continue;
    AddGroup(tree, node, law, slots);
  }
  AddChosen(tree, node, slots);
  group_ends_.push_back(static_cast<int32_t>(groups_.size()));
  attempt_ends_.push_back(static_cast<int32_t>(attempts_.size()));
}

void FlowTree::AddSupport(const TokenTree& tree,
                          absl::Span<const DraftSlot> slots) {
  const auto begin = static_cast<int64_t>(tokens_.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const int32_t law = slots[i].law;
    if (law == DraftSlot::kChosen) {
      tokens_.push_back(tree.tokens[slots[i].node]);
    } else if (!HasLaw(slots.first(i), law)) {
      const auto possible = tree.laws[law].tokens;
      tokens_.insert(tokens_.end(), possible.begin(), possible.end());
    }
  }
  std::sort(tokens_.begin() + begin, tokens_.end());
  tokens_.erase(std::unique(tokens_.begin() + begin, tokens_.end()),
                tokens_.end());
  support_ends_.push_back(static_cast<int32_t>(tokens_.size()));
}

void FlowTree::AddGroup(const TokenTree& tree, int32_t node, int32_t law,
                        absl::Span<const DraftSlot> slots) {
  const DraftLaw drawn_from = tree.laws[law];
  const auto begin = static_cast<int32_t>(entries_.size());
  int32_t entry = 0;
  for (size_t i = 0; i < drawn_from.tokens.size(); ++i) {
    while (support(node)[entry] != drawn_from.tokens[i]) ++entry;
    entries_.push_back(entry);
    probabilities_.push_back(drawn_from.weights[i] * (1.0 / kLawTotal));
  }
  laws_.push_back({begin, static_cast<int32_t>(entries_.size())});
  const auto group_law = static_cast<int32_t>(laws_.size()) - 1;
  const auto draws_begin = static_cast<int32_t>(attempts_.size());
  const auto index = static_cast<int32_t>(groups_.size()) - group_ends_[node];
  int32_t next_law = group_law;
  for (const DraftSlot& slot : slots) {
    if (slot.law != law) continue;
    const int32_t drawn = EntryOf(node, tree.tokens[slot.node]);
    const bool is_first = static_cast<int32_t>(attempts_.size()) == draws_begin;
    if (drawn_from.draws == LawDraws::kWithoutReplacement && !is_first) {
      next_law = AddLawWithout(next_law, attempts_.back().entry);
    }
    const auto place = [drawn](const Law& where) {
      return std::lower_bound(where.entries.begin(), where.entries.end(),
                              drawn) -
             where.entries.begin();
    };
    const Law given = LawAt(next_law);
    attempts_.push_back(
        {.child = slot.node,
         .entry = drawn,
         .law_entry = static_cast<int32_t>(place(LawAt(group_law))),
         .group = index,
         .law = next_law,
         .drafted = given.probability[place(given)]});
  }
  groups_.push_back({group_law, drawn_from.draws, draws_begin,
                     static_cast<int32_t>(attempts_.size())});
}

// A law without one of its tokens, of which it has more.
int32_t FlowTree::AddLawWithout(int32_t law, int32_t entry) {
  const LawRange range = laws_[law];
  const auto begin = static_cast<int32_t>(entries_.size());
  double rest = 0;
  for (int32_t i = range.begin; i < range.end; ++i) {
    if (entries_[i] == entry) continue;
    const double probability = probabilities_[i];
    rest += probability;
    entries_.push_back(int32_t{entries_[i]});
    probabilities_.push_back(probability);
  }
  laws_.push_back({begin, static_cast<int32_t>(entries_.size())});
  for (size_t i = begin; i < probabilities_.size(); ++i) {
    probabilities_[i] /= rest;
  }
  return static_cast<int32_t>(laws_.size()) - 1;
}

void FlowTree::AddChosen(const TokenTree& tree, int32_t node,
                         absl::Span<const DraftSlot> slots) {
  const auto begin = static_cast<int64_t>(attempts_.size());
  for (const DraftSlot& slot : slots) {
    if (slot.law != DraftSlot::kChosen) continue;
    const int32_t entry = EntryOf(node, tree.tokens[slot.node]);
    const bool is_known = std::any_of(
        attempts_.begin() + begin, attempts_.end(),
        [entry](const Attempt& attempt) { return attempt.entry == entry; });
    if (!is_known) attempts_.push_back({.child = slot.node, .entry = entry});
  }
}

int32_t FlowTree::EntryOf(int32_t node, TokenId token) const {
  const auto tokens = support(node);
  return static_cast<int32_t>(
      std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin());
}

absl::Status FlowTree::GatherTarget(TargetLaws& laws) {
  target_.resize(tokens_.size());
  outside_.assign(num_nodes(), 1);
  for (int32_t node = 0; node < num_nodes(); ++node) {
    if (is_leaf(node)) continue;
    ASSIGN_OR_RETURN(outside_[node],
                     laws.Gather(node, support(node), OfNode(target_, node)));
  }
  return absl::OkStatus();
}

FlowTree::Law FlowTree::LawAt(int32_t law) const {
  const auto [begin, end] = laws_[law];
  return {.entries = absl::MakeConstSpan(entries_).subspan(begin, end - begin),
          .probability =
              absl::MakeConstSpan(probabilities_).subspan(begin, end - begin)};
}

FlowTree::Group FlowTree::group(int32_t node, int32_t index) const {
  const GroupRange& range = groups_[group_ends_[node] + index];
  return {.law = LawAt(range.law),
          .how = range.how,
          .draws = absl::MakeConstSpan(attempts_).subspan(
              range.draws_begin, range.draws_end - range.draws_begin)};
}

absl::Span<const FlowTree::Attempt> FlowTree::chosen(int32_t node) const {
  const int32_t groups = num_groups(node);
  const int32_t end = attempt_ends_[node + 1];
  const int32_t begin = groups == 0
                            ? attempt_ends_[node]
                            : groups_[group_ends_[node] + groups - 1].draws_end;
  return absl::MakeConstSpan(attempts_).subspan(begin, end - begin);
}

FlowTree::Law FlowTree::LawOf(const Attempt& attempt) const {
  static constexpr double kCertain = 1;
  if (attempt.law == Attempt::kChosen) {
    return {.entries = {&attempt.entry, 1}, .probability = {&kCertain, 1}};
  }
  return LawAt(attempt.law);
}

}  // namespace espalier::verifier
