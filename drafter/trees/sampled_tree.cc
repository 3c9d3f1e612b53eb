#include "drafter/trees/sampled_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/speculation/draft_distributions.h"
#include "common/speculation/gumbel_noise.h"

namespace espalier::drafter {
namespace {

// Separates this noise from other uses of the same key.
constexpr uint32_t kPurposeDraft = 0x44524654;

bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
}

// Adds the distribution of `possible`, likeliest first and not normalised, in
// its wire form.
int32_t AddDistribution(absl::Span<const Candidate> possible,
                        SampleDependence draws,
                        DraftDistributions& distributions) {
  const double largest = possible[0].log_prob;  // so that not all underflow
  std::vector<Candidate> by_token(possible.begin(), possible.end());
  std::sort(
      by_token.begin(), by_token.end(),
      [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  std::vector<double> probabilities;
  for (const Candidate& candidate : by_token) {
    probabilities.push_back(std::exp(candidate.log_prob - largest));
  }
  const std::vector<uint32_t> weights = DistributionWeights(probabilities);
  std::vector<TokenId> tokens;
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    tokens.push_back(by_token[i].token);
    kept.push_back(weights[i]);
  }
  return distributions.Add(tokens, kept, draws);
}

uint64_t RandomKey() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

SampledTree::SampledTree(const SequenceView& view, const SampledShape& shape)
    : shape_(shape),
      budget_(view.budget),
      temperature_(view.sampling.temperature),
      key_(shape.noise_key ^ view.sampling.seed),
      length_(view.tokens.size() + view.lookahead.size()),
      tree_(TokenTree::RootOnly(view.root())),
      nodes_{{.token = view.root()}},
      visits_{1},
      frontier_{0} {
  ESPALIER_CHECK(shape.Draws(view.sampling));
  Advance();
}

// Decides the size of the layer below the frontier, from sample counts alone.
void SampledTree::Advance() {
  branches_ = 0;
  if (!frontier_.empty()) {
    const int64_t depth = nodes_[frontier_.front()].depth;
    int64_t visits = 0;
    for (int32_t node : frontier_) visits += visits_[node];
    const int64_t left = budget_.max_nodes - std::ssize(tree_.samples);
    if (depth < std::min(std::ssize(shape_.branches), budget_.max_depth)) {
      branches_ = std::min(shape_.branches[depth], left / visits);
    }
  }
  if (branches_ == 0) frontier_.clear();
}

void SampledTree::Expand(
    absl::Span<const std::vector<Candidate>> distributions) {
  ESPALIER_CHECK(distributions.size() == frontier_.size());
  const bool is_greedy = shape_.scheme == DrawScheme::kGreedyPlusOne;
  const int64_t draws = is_greedy ? 1 : branches_;
  const int32_t first = static_cast<int32_t>(nodes_.size());
  for (size_t i = 0; i < distributions.size(); ++i) {
    const int32_t parent = frontier_[i];
    const int64_t visits = visits_[parent];
    const std::vector<Candidate> ranked = Sharpened(distributions[i]);
    const auto chosen = absl::MakeConstSpan(ranked).first(
        std::min<size_t>(branches_ - draws, ranked.size()));
    for (const Candidate& candidate : chosen) {
      Find(parent, candidate, DraftSample::kDeterministic, visits);
    }
    Draw(parent, absl::MakeConstSpan(ranked).subspan(chosen.size()),
         visits * draws);
  }
  frontier_.clear();
  for (auto node = first; node < std::ssize(nodes_); ++node) {
    frontier_.push_back(node);
  }
  Advance();
}

// Returns the likeliest tokens at the request's temperature, likeliest first,
// ties to the lower id. Not normalised.
std::vector<Candidate> SampledTree::Sharpened(
    std::vector<Candidate> distribution) const {
  std::sort(distribution.begin(), distribution.end(), IsLikelier);
  if (std::ssize(distribution) > shape_.top) distribution.resize(shape_.top);
  for (Candidate& candidate : distribution) candidate.log_prob /= temperature_;
  return distribution;
}

// `possible`: likeliest first.
void SampledTree::Draw(int32_t parent, absl::Span<const Candidate> possible,
                       int64_t count) {
  if (possible.empty()) return;
  const bool replaces = shape_.scheme != DrawScheme::kWithoutReplacement;
  const int32_t index =
      AddDistribution(possible,
                      replaces ? SampleDependence::kIndependent
                               : SampleDependence::kWithoutReplacement,
                      tree_.distributions);
  const DraftDistribution distribution = tree_.distributions[index];
  std::vector<uint32_t> weights(distribution.weights.begin(),
                                distribution.weights.end());
  uint32_t total = kDistributionTotal;
  for (int64_t i = 0; i < count && total > 0; ++i) {
    uint32_t left = Random(total);
    size_t sampled = 0;
    while (left >= weights[sampled]) left -= weights[sampled++];
    const double share = static_cast<double>(weights[sampled]) / total;
    Find(parent,
         {.token = distribution.tokens[sampled], .log_prob = std::log(share)},
         index, 1);
    if (!replaces) total -= std::exchange(weights[sampled], 0);
  }
}

// Uniform in 0 .. end - 1.
uint32_t SampledTree::Random(uint32_t end) {
  constexpr uint64_t kAll = uint64_t{1} << 32;
  for (;;) {
    const uint64_t bits =
        Philox({num_draws_++, static_cast<uint32_t>(length_),
                static_cast<uint32_t>(length_ >> 32), kPurposeDraft},
               key_)[0];
    if (bits < kAll - kAll % end) return static_cast<uint32_t>(bits % end);
  }
}

// Adds `samples` samples of `candidate` below `parent`.
void SampledTree::Find(int32_t parent, const Candidate& candidate,
                       int32_t distribution, int64_t samples) {
  int32_t node = tree_.ChildWith(parent, candidate.token);
  if (node == TokenTree::kNoChild) {
    const double log_prob = tree_.log_probs[parent] + candidate.log_prob;
    node = tree_.Add(parent, candidate.token, static_cast<float>(log_prob));
    nodes_.push_back({.token = candidate.token,
                      .parent = parent,
                      .depth = nodes_[parent].depth + 1});
    visits_.push_back(0);
  }
  for (int64_t i = 0; i < samples; ++i) {
    tree_.samples.push_back({.node = node, .distribution = distribution});
  }
  visits_[node] += samples;
}

TokenTree BuildSampledTree(const SequenceView& view, const SampledShape& shape,
                           NextTokens next_tokens) {
  SampledTree tree(view, shape);
  while (!tree.frontier().empty()) {
    std::vector<std::vector<Candidate>> distributions;
    for (int32_t node : tree.frontier()) {
      std::vector<TokenId> path;
      for (; node != 0; node = tree.node(node).parent) {
        path.push_back(tree.node(node).token);
      }
      std::reverse(path.begin(), path.end());
      distributions.push_back(next_tokens(path));
    }
    tree.Expand(distributions);
  }
  return tree.Tree();
}

SampledShape ReadSampledShape(OptionReader& reader) {
  constexpr int64_t kMaxBranches = 64;
  static const std::map<std::string, DrawScheme> kSchemes = {
      {"sampled", DrawScheme::kIndependent},
      {"greedy+1", DrawScheme::kGreedyPlusOne},
      {"without-replacement", DrawScheme::kWithoutReplacement}};
  SampledShape shape;
  const std::string name = reader.Text("scheme", "best_first");
  const std::string branches = reader.Text("branches", "2,2,2");
  shape.top = reader.Integer("top", {20, 1, kMaxDistributionTokens});
  const int64_t key =
      reader.Integer("noise_key", {0, 0, std::numeric_limits<int64_t>::max()});
  if (name == "best_first") return shape;
  const auto scheme = kSchemes.find(name);
  if (scheme == kSchemes.end()) {
    reader.Fail("scheme",
                "must be best_first, sampled, greedy+1 or without-replacement");
    return shape;
  }
  shape.scheme = scheme->second;
  shape.noise_key = key == 0 ? RandomKey() : static_cast<uint64_t>(key);
  for (const auto& part : absl::StrSplit(branches, ',')) {
    int64_t count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 1 || count > kMaxBranches) {
      reader.Fail("branches", "must be numbers of 1 .. 64, as 4,2,1");
      break;
    }
    shape.branches.push_back(count);
  }
  return shape;
}

}  // namespace espalier::drafter
