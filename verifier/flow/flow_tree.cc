#include "verifier/flow/flow_tree.h"

#include <algorithm>
#include <numeric>

#include "common/base/status_macros.h"

namespace espalier::verifier {
namespace {

// Sorts by counting, and stably: `order` becomes 0 .. size - 1 by key(i) <
// num_keys, and ends[k] .. ends[k + 1] the part of it with key k.
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

bool HasDistribution(absl::Span<const DraftSample> samples,
                     int32_t distribution) {
  return std::any_of(samples.begin(), samples.end(),
                     [distribution](const DraftSample& sample) {
                       return sample.distribution == distribution;
                     });
}

}  // namespace

void FlowTree::Build(const TokenTree& tree) {
  SortByDepth(tree);
  SortSamples(tree);
  draws_.clear();
  groups_.clear();
  distributions_.clear();
  entries_.clear();
  probabilities_.clear();
  tokens_.clear();
  for (auto* ends : {&draw_ends_, &group_ends_, &support_ends_}) {
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

void FlowTree::SortSamples(const TokenTree& tree) {
  const bool all_deterministic = !tree.claims_distributions();
  const auto sample = [&tree, all_deterministic](int32_t i) {
    return all_deterministic ? DraftSample{.node = i + 1} : tree.samples[i];
  };
  const auto size = all_deterministic
                        ? num_nodes() - 1
                        : static_cast<int32_t>(tree.samples.size());
  SortByKey(
      size, num_nodes(),
      [&tree, sample](int32_t i) { return tree.parents[sample(i).node]; },
      sample_order_, sample_ends_);
  samples_.clear();
  for (int32_t i : sample_order_) samples_.push_back(sample(i));
}

void FlowTree::AddNode(const TokenTree& tree, int32_t node) {
  const absl::Span<const DraftSample> samples =
      Part(samples_, sample_ends_, node);
  AddSupport(tree, samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    const int32_t distribution = samples[i].distribution;
    if (distribution == DraftSample::kDeterministic ||
        HasDistribution(samples.first(i), distribution))
      continue;
    AddGroup(tree, node, distribution, samples);
  }
  AddDeterministic(tree, node, samples);
  group_ends_.push_back(static_cast<int32_t>(groups_.size()));
  draw_ends_.push_back(static_cast<int32_t>(draws_.size()));
}

void FlowTree::AddSupport(const TokenTree& tree,
                          absl::Span<const DraftSample> samples) {
  const auto begin = static_cast<int64_t>(tokens_.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const int32_t distribution = samples[i].distribution;
    if (distribution == DraftSample::kDeterministic) {
      tokens_.push_back(tree.tokens[samples[i].node]);
    } else if (!HasDistribution(samples.first(i), distribution)) {
      const auto possible = tree.distributions[distribution].tokens;
      tokens_.insert(tokens_.end(), possible.begin(), possible.end());
    }
  }
  std::sort(tokens_.begin() + begin, tokens_.end());
  tokens_.erase(std::unique(tokens_.begin() + begin, tokens_.end()),
                tokens_.end());
  support_ends_.push_back(static_cast<int32_t>(tokens_.size()));
}

void FlowTree::AddGroup(const TokenTree& tree, int32_t node,
                        int32_t distribution,
                        absl::Span<const DraftSample> samples) {
  const DraftDistribution sampled_from = tree.distributions[distribution];
  const auto begin = static_cast<int32_t>(entries_.size());
  int32_t entry = 0;
  for (size_t i = 0; i < sampled_from.tokens.size(); ++i) {
    while (support(node)[entry] != sampled_from.tokens[i]) ++entry;
    entries_.push_back(entry);
    probabilities_.push_back(sampled_from.weights[i] *
                             (1.0 / kDistributionTotal));
  }
  distributions_.push_back({begin, static_cast<int32_t>(entries_.size())});
  const auto group_distribution =
      static_cast<int32_t>(distributions_.size()) - 1;
  const auto draws_begin = static_cast<int32_t>(draws_.size());
  const auto index = static_cast<int32_t>(groups_.size()) - group_ends_[node];
  int32_t next_distribution = group_distribution;
  for (const DraftSample& sample : samples) {
    if (sample.distribution != distribution) continue;
    const int32_t sampled = EntryOf(node, tree.tokens[sample.node]);
    const bool is_first = static_cast<int32_t>(draws_.size()) == draws_begin;
    if (sampled_from.draws == SampleDependence::kWithoutReplacement &&
        !is_first) {
      next_distribution =
          AddDistributionWithout(next_distribution, draws_.back().entry);
    }
    const auto place = [sampled](const Distribution& where) {
      return std::lower_bound(where.entries.begin(), where.entries.end(),
                              sampled) -
             where.entries.begin();
    };
    const Distribution given = DistributionAt(next_distribution);
    draws_.push_back({.child = sample.node,
                      .entry = sampled,
                      .distribution_entry = static_cast<int32_t>(
                          place(DistributionAt(group_distribution))),
                      .group = index,
                      .distribution = next_distribution,
                      .drafted = given.probability[place(given)]});
  }
  groups_.push_back({group_distribution, sampled_from.draws, draws_begin,
                     static_cast<int32_t>(draws_.size())});
}

// Returns the distribution without one of its tokens. REQUIRES: it has more
// than one.
int32_t FlowTree::AddDistributionWithout(int32_t distribution, int32_t entry) {
  const DistributionRange range = distributions_[distribution];
  const auto begin = static_cast<int32_t>(entries_.size());
  double rest = 0;
  for (int32_t i = range.begin; i < range.end; ++i) {
    if (entries_[i] == entry) continue;
    const double probability = probabilities_[i];
    rest += probability;
    entries_.push_back(int32_t{entries_[i]});
    probabilities_.push_back(probability);
  }
  distributions_.push_back({begin, static_cast<int32_t>(entries_.size())});
  for (size_t i = begin; i < probabilities_.size(); ++i) {
    probabilities_[i] /= rest;
  }
  return static_cast<int32_t>(distributions_.size()) - 1;
}

void FlowTree::AddDeterministic(const TokenTree& tree, int32_t node,
                                absl::Span<const DraftSample> samples) {
  const auto begin = static_cast<int64_t>(draws_.size());
  for (const DraftSample& sample : samples) {
    if (sample.distribution != DraftSample::kDeterministic) continue;
    const int32_t entry = EntryOf(node, tree.tokens[sample.node]);
    const bool is_known =
        std::any_of(draws_.begin() + begin, draws_.end(),
                    [entry](const Draw& draw) { return draw.entry == entry; });
    if (!is_known) draws_.push_back({.child = sample.node, .entry = entry});
  }
}

int32_t FlowTree::EntryOf(int32_t node, TokenId token) const {
  const auto tokens = support(node);
  return static_cast<int32_t>(
      std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin());
}

absl::Status FlowTree::GatherTarget(TargetDistributions& distributions) {
  target_.resize(tokens_.size());
  outside_.assign(num_nodes(), 1);
  for (int32_t node = 0; node < num_nodes(); ++node) {
    if (is_leaf(node)) continue;
    ASSIGN_OR_RETURN(
        outside_[node],
        distributions.Gather(node, support(node), OfNode(target_, node)));
  }
  return absl::OkStatus();
}

FlowTree::Distribution FlowTree::DistributionAt(int32_t distribution) const {
  const auto [begin, end] = distributions_[distribution];
  return {.entries = absl::MakeConstSpan(entries_).subspan(begin, end - begin),
          .probability =
              absl::MakeConstSpan(probabilities_).subspan(begin, end - begin)};
}

FlowTree::Group FlowTree::group(int32_t node, int32_t index) const {
  const GroupRange& range = groups_[group_ends_[node] + index];
  return {.distribution = DistributionAt(range.distribution),
          .how = range.how,
          .draws = absl::MakeConstSpan(draws_).subspan(
              range.draws_begin, range.draws_end - range.draws_begin)};
}

absl::Span<const FlowTree::Draw> FlowTree::deterministic(int32_t node) const {
  const int32_t groups = num_groups(node);
  const int32_t end = draw_ends_[node + 1];
  const int32_t begin = groups == 0
                            ? draw_ends_[node]
                            : groups_[group_ends_[node] + groups - 1].draws_end;
  return absl::MakeConstSpan(draws_).subspan(begin, end - begin);
}

FlowTree::Distribution FlowTree::DistributionOf(const Draw& draw) const {
  static constexpr double kCertain = 1;
  if (draw.distribution == Draw::kDeterministic) {
    return {.entries = {&draw.entry, 1}, .probability = {&kCertain, 1}};
  }
  return DistributionAt(draw.distribution);
}

}  // namespace espalier::verifier
