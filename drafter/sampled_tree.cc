#include "drafter/sampled_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/spec/draft_laws.h"
#include "common/spec/gumbel_noise.h"

namespace espalier::drafter {
namespace {

// Keeps these draws apart from other uses of the same key.
constexpr uint32_t kPurposeDraft = 0x44524654;

class SampledTreeBuilder {
 public:
  SampledTreeBuilder(const SequenceView& view, const SampledShape& shape,
                     NextTokens next_tokens)
      : view_(view),
        shape_(shape),
        next_tokens_(next_tokens),
        tree_(TokenTree::RootOnly(view.tokens.back())) {}

  TokenTree Build() && {
    std::vector<Visit> layer = {{.node = 0, .visits = 1}};
    const int64_t depth =
        std::min<int64_t>(std::ssize(shape_.branches), view_.budget.max_depth);
    for (int64_t d = 0; d < depth && !layer.empty(); ++d) {
      int64_t visits = 0;
      for (const Visit& visit : layer) visits += visit.visits;
      const int64_t left =
          view_.budget.max_nodes - static_cast<int64_t>(tree_.slots.size());
      const int64_t branches = std::min(shape_.branches[d], left / visits);
      if (branches == 0) break;
      GrowLayer(layer, branches);
    }
    return std::move(tree_);
  }

 private:
  // A node and how many attempts found it; below it there are as many times the
  // attempts.
  struct Visit {
    int32_t node = 0;
    int64_t visits = 0;
  };

  // Replaces a layer by the one below. REQUIRES: branches >= 1.
  void GrowLayer(std::vector<Visit>& layer, int64_t branches) {
    const int64_t draws = shape_.greedy_plus_one ? 1 : branches;
    std::vector<Visit> below;
    for (const Visit& visit : layer) {
      const std::vector<Candidate> ranked = Law(visit.node);
      const auto chosen = absl::MakeConstSpan(ranked).first(
          std::min<size_t>(branches - draws, ranked.size()));
      for (const Candidate& candidate : chosen) {
        Find(visit.node, candidate, DraftSlot::kChosen, visit.visits, below);
      }
      Draw(visit.node, absl::MakeConstSpan(ranked).subspan(chosen.size()),
           visit.visits * draws, below);
    }
    layer = std::move(below);
  }

  // The likeliest tokens after a node, at the request's temperature; likeliest
  // first, ties to the lower id. Not normalised.
  std::vector<Candidate> Law(int32_t node) const {
    std::vector<TokenId> path;
    for (int32_t i : tree_.PathTo(node)) path.push_back(tree_.tokens[i]);
    std::vector<Candidate> law = next_tokens_(path);
    std::sort(law.begin(), law.end(),
              [](const Candidate& a, const Candidate& b) {
                return a.log_prob != b.log_prob ? a.log_prob > b.log_prob
                                                : a.token < b.token;
              });
    if (std::ssize(law) > shape_.top) law.resize(shape_.top);
    for (Candidate& candidate : law) {
      candidate.log_prob /= view_.sampling.temperature;
    }
    return law;
  }

  void Draw(int32_t parent, absl::Span<const Candidate> possible, int64_t count,
            std::vector<Visit>& below) {
    if (possible.empty()) return;
    const int32_t index = AddLaw(possible);
    const DraftLaw law = tree_.laws[index];
    for (int64_t i = 0; i < count; ++i) {
      const size_t drawn = Choose(law.weights);
      const double share = law.weights[drawn] * (1.0 / kLawTotal);
      Find(parent, {.token = law.tokens[drawn], .log_prob = std::log(share)},
           index, 1, below);
    }
  }

  // `possible`: likeliest first.
  int32_t AddLaw(absl::Span<const Candidate> possible) {
    const double largest = possible[0].log_prob;  // so that not all underflow
    std::vector<Candidate> by_token(possible.begin(), possible.end());
    std::sort(by_token.begin(), by_token.end(),
              [](const Candidate& a, const Candidate& b) {
                return a.token < b.token;
              });
    std::vector<double> probabilities;
    for (const Candidate& candidate : by_token) {
      probabilities.push_back(std::exp(candidate.log_prob - largest));
    }
    const std::vector<uint32_t> weights = LawWeights(probabilities);
    std::vector<TokenId> tokens;
    std::vector<uint32_t> kept;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      tokens.push_back(by_token[i].token);
      kept.push_back(weights[i]);
    }
    return tree_.laws.Add(tokens, kept);
  }

  // An index with probability weights[index] / kLawTotal, exactly: the total is
  // a power of two.
  size_t Choose(absl::Span<const uint32_t> weights) {
    const auto length = static_cast<uint64_t>(view_.tokens.size());
    const uint32_t bits =
        Philox({num_draws_++, static_cast<uint32_t>(length),
                static_cast<uint32_t>(length >> 32), kPurposeDraft},
               shape_.noise_key ^ view_.sampling.seed)[0];
    uint32_t left = bits % kLawTotal;
    size_t index = 0;
    while (left >= weights[index]) left -= weights[index++];
    return index;
  }

  // `candidate`, below `parent`, was found by so many attempts.
  void Find(int32_t parent, const Candidate& candidate, int32_t law,
            int64_t attempts, std::vector<Visit>& below) {
    int32_t node = tree_.ChildWith(parent, candidate.token);
    if (node == TokenTree::kNoChild) {
      const double log_prob = tree_.log_probs[parent] + candidate.log_prob;
      node = tree_.Add(parent, candidate.token, static_cast<float>(log_prob));
      below.push_back({.node = node, .visits = 0});
    }
    for (int64_t i = 0; i < attempts; ++i) {
      tree_.slots.push_back({.node = node, .law = law});
    }
    std::find_if(below.begin(), below.end(), [node](const Visit& visit) {
      return visit.node == node;
    })->visits += attempts;
  }

  const SequenceView& view_;
  const SampledShape& shape_;
  const NextTokens next_tokens_;
  TokenTree tree_;
  uint32_t num_draws_ = 0;
};

uint64_t RandomKey() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

TokenTree BuildSampledTree(const SequenceView& view, const SampledShape& shape,
                           NextTokens next_tokens) {
  ESPALIER_CHECK(!view.tokens.empty() && !view.sampling.greedy());
  return SampledTreeBuilder(view, shape, next_tokens).Build();
}

SampledShape ReadSampledShape(OptionReader& reader) {
  constexpr int64_t kMostBranches = 64;
  SampledShape shape;
  const std::string scheme = reader.Text("scheme", "best_first");
  const std::string branches = reader.Text("branches", "2,2,2");
  shape.top = reader.Integer("top", {20, 1, 1 << 20});
  const int64_t key =
      reader.Integer("noise_key", {0, 0, std::numeric_limits<int64_t>::max()});
  if (scheme == "best_first") return shape;
  if (scheme != "sampled" && scheme != "greedy+1") {
    reader.Fail("scheme", "must be best_first, sampled or greedy+1");
  }
  shape.greedy_plus_one = scheme == "greedy+1";
  shape.noise_key = key == 0 ? RandomKey() : static_cast<uint64_t>(key);
  for (const auto& part : absl::StrSplit(branches, ',')) {
    int64_t count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 1 || count > kMostBranches) {
      reader.Fail("branches", "must be numbers of 1 .. 64, as 4,2,1");
      break;
    }
    shape.branches.push_back(count);
  }
  return shape;
}

}  // namespace espalier::drafter
