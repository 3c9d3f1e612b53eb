#include "lab/draft_scheme.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "common/speculation/draft_distributions.h"

namespace espalier::verifier {
namespace {

using Kind = DraftStep::Kind;

// Returns the tokens in descending probability, ties to the lower id.
Tokens Ranked(absl::Span<const double> distribution) {
  Tokens tokens(distribution.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::sort(tokens.begin(), tokens.end(), [distribution](TokenId a, TokenId b) {
    return distribution[a] != distribution[b]
               ? distribution[a] > distribution[b]
               : a < b;
  });
  return tokens;
}

class Drafter {
 public:
  Drafter(const DraftScheme& scheme,
          absl::Span<const SequenceModel* const> drafters,
          const DrawIndex& draw)
      : scheme_(scheme), drafters_(drafters), draw_(draw) {}

  TokenTree Run() {
    for (const DraftStep& step : scheme_.steps) nodes_.push_back(Take(step));
    return std::move(tree_);
  }

 private:
  static constexpr int32_t kMissing = -1;

  // Adds the step's node and returns it.
  int32_t Take(const DraftStep& step) {
    const int32_t parent = nodes_[step.parent];
    if (parent == kMissing || Ends(parent)) return kMissing;
    const auto distribution =
        drafters_[step.drafter]->Distribution(TextOf(tree_, parent));
    if (step.kind == Kind::kTop) {
      return AddNode(parent, Ranked(distribution)[step.rank],
                     DraftSample::kDeterministic);
    }
    const int32_t sampled_from = DistributionOf(step, parent, distribution);
    if (sampled_from == kMissing) return kMissing;
    const std::vector<double> distribution_left = WhatIsLeft(sampled_from);
    if (distribution_left.empty()) return kMissing;
    const TokenId token =
        tree_.distributions[sampled_from].tokens[draw_(distribution_left)];
    return AddNode(parent, token, sampled_from);
  }

  bool Ends(int32_t node) const {
    return node != 0 && scheme_.end_token == tree_.tokens[node];
  }

  // Returns the distribution's index in the tree. Steps that draw from the same
  // distribution share it.
  int32_t DistributionOf(const DraftStep& step, int32_t parent,
                         absl::Span<const double> distribution) {
    const int64_t left_out = step.kind == Kind::kRest ? step.rank : 0;
    const auto [known, is_new] = distributions_.try_emplace(
        {parent, step.drafter, step.kind == Kind::kDistinct, left_out},
        kMissing);
    if (is_new) {
      known->second = AddDistribution(
          distribution, left_out,
          step.kind == Kind::kDistinct ? SampleDependence::kWithoutReplacement
                                       : SampleDependence::kIndependent);
    }
    return known->second;
  }

  int32_t AddDistribution(absl::Span<const double> distribution,
                          int64_t left_out, SampleDependence draws) {
    std::vector<double> rest(distribution.begin(), distribution.end());
    if (left_out > 0) {
      const Tokens ranked = Ranked(distribution);
      for (int64_t i = 0; i < left_out && i < std::ssize(ranked); ++i) {
        rest[ranked[i]] = 0;
      }
    }
    const auto is_zero = [](double p) { return p == 0; };
    if (std::all_of(rest.begin(), rest.end(), is_zero)) return kMissing;
    const std::vector<uint32_t> weights = DistributionWeights(rest);
    Tokens tokens;
    std::vector<uint32_t> kept;
    for (size_t token = 0; token < weights.size(); ++token) {
      if (weights[token] == 0) continue;
      tokens.push_back(static_cast<TokenId>(token));
      kept.push_back(weights[token]);
    }
    return tree_.distributions.Add(tokens, kept, draws);
  }

  // Returns the weights of the next draw from a distribution, [tokens of the
  // distribution]; empty: no token is left.
  std::vector<double> WhatIsLeft(int32_t index) const {
    const DraftDistribution distribution = tree_.distributions[index];
    std::vector<double> left(distribution.weights.begin(),
                             distribution.weights.end());
    if (distribution.draws == SampleDependence::kWithoutReplacement) {
      for (const DraftSample& sample : tree_.samples) {
        if (sample.distribution != index) continue;
        const TokenId sampled = tree_.tokens[sample.node];
        left[std::lower_bound(distribution.tokens.begin(),
                              distribution.tokens.end(), sampled) -
             distribution.tokens.begin()] = 0;
      }
    }
    const double sum = std::accumulate(left.begin(), left.end(), 0.0);
    if (sum == 0) return {};
    for (double& weight : left) weight /= sum;
    return left;
  }

  int32_t AddNode(int32_t parent, TokenId token, int32_t distribution) {
    int32_t node = TokenTree::kNoChild;
    if (scheme_.merge_duplicates) node = tree_.ChildWith(parent, token);
    if (node == TokenTree::kNoChild) node = tree_.Add(parent, token, 0.0f);
    tree_.samples.push_back({.node = node, .distribution = distribution});
    return node;
  }

  const DraftScheme& scheme_;
  const absl::Span<const SequenceModel* const> drafters_;
  const DrawIndex& draw_;
  TokenTree tree_ = TokenTree::RootOnly(0);
  std::vector<int32_t> nodes_ = {0};  // [steps + 1]
  // The distributions by node, drafter, whether draws differ, and number of
  // tokens left out.
  std::map<std::tuple<int32_t, int32_t, bool, int64_t>, int32_t> distributions_;
};

// Grows a shape: num_children(sibling index, siblings, depth) for every node,
// the root being the only one of depth 0.
template <typename NumChildren>
Shape Grow(int64_t depth, NumChildren num_children) {
  struct Node {
    int32_t step;
    int64_t index, siblings;
  };
  Shape shape;
  std::vector<Node> layer = {{0, 0, 1}};
  for (int64_t d = 0; d < depth; ++d) {
    std::vector<Node> next;
    for (const Node& node : layer) {
      const int64_t children = num_children(node.index, node.siblings, d);
      for (int64_t i = 0; i < children; ++i) {
        shape.push_back(node.step);
        next.push_back({static_cast<int32_t>(shape.size()), i, children});
      }
    }
    layer = std::move(next);
  }
  return shape;
}

// `kind` and rank from a step's index among its siblings, and their number.
template <typename Choose>
DraftScheme SchemeOf(const Shape& shape, Choose choose) {
  std::vector<int64_t> siblings(shape.size() + 1), index(shape.size() + 1);
  for (int32_t parent : shape) ++siblings[parent];
  DraftScheme scheme;
  for (int32_t parent : shape) {
    DraftStep step = choose(index[parent]++, siblings[parent]);
    step.parent = parent;
    scheme.steps.push_back(step);
  }
  return scheme;
}

}  // namespace

TokenTree DraftTree(const DraftScheme& scheme,
                    absl::Span<const SequenceModel* const> drafters,
                    const DrawIndex& draw) {
  return Drafter(scheme, drafters, draw).Run();
}

Shape MultiChain(int64_t branch, int64_t depth) {
  return Grow(depth, [branch](int64_t, int64_t, int64_t d) {
    return d == 0 ? branch : 1;
  });
}

Shape Tapered(int64_t branch, int64_t depth) {
  return Grow(depth, [branch](int64_t i, int64_t siblings, int64_t d) {
    return d == 0 ? branch : std::max<int64_t>(siblings - i, 1);
  });
}

Shape Branching(absl::Span<const int64_t> branches) {
  return Grow(static_cast<int64_t>(branches.size()),
              [branches](int64_t, int64_t, int64_t d) { return branches[d]; });
}

DraftScheme AllSampled(const Shape& shape) {
  return SchemeOf(shape, [](int64_t, int64_t) { return DraftStep{}; });
}

DraftScheme WithoutReplacement(const Shape& shape) {
  return SchemeOf(shape, [](int64_t, int64_t) {
    return DraftStep{.kind = Kind::kDistinct};
  });
}

DraftScheme AllTop(const Shape& shape) {
  return SchemeOf(shape, [](int64_t i, int64_t) {
    return DraftStep{.kind = Kind::kTop, .rank = i};
  });
}

DraftScheme GreedyPlusOne(const Shape& shape) {
  return SchemeOf(shape, [](int64_t i, int64_t siblings) {
    const bool is_last = i + 1 == siblings;
    return DraftStep{.kind = is_last ? Kind::kRest : Kind::kTop, .rank = i};
  });
}

}  // namespace espalier::verifier
