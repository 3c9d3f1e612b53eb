#include "common/speculation/token_tree.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

absl::Status NodeError(int64_t node, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("draft tree: node ", node, ": ", what));
}

absl::Status CheckSizes(const TokenTree& tree, int64_t max_nodes) {
  const size_t n = tree.tokens.size();
  if (n == 0) return absl::InvalidArgumentError("draft tree: no root");
  if (static_cast<int64_t>(n) - 1 > max_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("draft tree: ", n - 1, " nodes, limit ", max_nodes));
  }
  if (tree.parents.size() != n || tree.log_probs.size() != n ||
      (!tree.provenance.empty() && tree.provenance.size() != n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "draft tree: columns differ in length: tokens ", n, ", parents ",
        tree.parents.size(), ", log_probs ", tree.log_probs.size(),
        ", provenance ", tree.provenance.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const TokenTree& tree) {
  const size_t most = TokenTree::kMaxSamplesPerNode * tree.tokens.size();
  if (tree.samples.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "draft tree: ", tree.samples.size(), " samples, limit ", most));
  }
  std::vector<bool> is_found(tree.tokens.size(), false);
  is_found[0] = true;
  for (const DraftSample& sample : tree.samples) {
    if (sample.node < 1 || sample.node >= tree.num_nodes()) {
      return NodeError(sample.node, "has a sample, but cannot have one");
    }
    is_found[sample.node] = true;
    if (sample.distribution == DraftSample::kDeterministic) continue;
    if (sample.distribution < 0 ||
        sample.distribution >= tree.distributions.size()) {
      return NodeError(sample.node, absl::StrCat("sampled from distribution ",
                                                 sample.distribution, " of ",
                                                 tree.distributions.size()));
    }
    const auto possible = tree.distributions[sample.distribution].tokens;
    if (!std::binary_search(possible.begin(), possible.end(),
                            tree.tokens[sample.node])) {
      return NodeError(sample.node,
                       "sampled from a distribution that lacks its token");
    }
  }
  const auto missing = std::find(is_found.begin(), is_found.end(), false);
  if (missing == is_found.end()) return absl::OkStatus();
  return NodeError(missing - is_found.begin(), "has no sample");
}

// Samples without replacement have one parent and different tokens.
absl::Status CheckDistinct(const TokenTree& tree) {
  std::vector<std::vector<int32_t>> sampled(
      tree.distributions.size());  // [distributions] nodes
  for (const DraftSample& sample : tree.samples) {
    if (sample.distribution == DraftSample::kDeterministic ||
        tree.distributions[sample.distribution].draws ==
            SampleDependence::kIndependent) {
      continue;
    }
    for (int32_t other : sampled[sample.distribution]) {
      if (tree.parents[other] != tree.parents[sample.node]) {
        return NodeError(sample.node,
                         absl::StrCat("sampled without replacement, "
                                      "as node ",
                                      other, " of another parent"));
      }
      if (tree.tokens[other] == tree.tokens[sample.node]) {
        return NodeError(sample.node, "sampled twice without replacement");
      }
    }
    sampled[sample.distribution].push_back(sample.node);
  }
  return absl::OkStatus();
}

}  // namespace

TokenTree TokenTree::RootOnly(TokenId root) {
  return {.tokens = {root}, .parents = {kNoParent}, .log_probs = {0.0f}};
}

int32_t TokenTree::Add(int32_t parent, TokenId token, float log_prob) {
  ESPALIER_CHECK(parent >= 0 && parent < num_nodes());
  tokens.push_back(token);
  parents.push_back(parent);
  log_probs.push_back(log_prob);
  return static_cast<int32_t>(num_nodes() - 1);
}

void TokenTree::Cut(int64_t count) {
  ESPALIER_CHECK(count >= 1 && count <= num_nodes());
  tokens.resize(count);
  parents.resize(count);
  log_probs.resize(count);
  if (!provenance.empty()) provenance.resize(count);
  DropDistributions();
}

int32_t TokenTree::ChildWith(int32_t parent, TokenId token) const {
  for (int32_t i = parent + 1; i < num_nodes(); ++i) {
    if (parents[i] == parent && tokens[i] == token) return i;
  }
  return kNoChild;
}

TokenTree TokenTree::Subtree(int32_t node) const {
  TokenTree subtree = RootOnly(tokens[node]);
  std::vector<int32_t> index_in_subtree(tokens.size(), kNoChild);
  index_in_subtree[node] = 0;
  for (int32_t i = node + 1; i < num_nodes(); ++i) {
    const int32_t parent = index_in_subtree[parents[i]];
    if (parent == kNoChild) continue;
    index_in_subtree[i] =
        subtree.Add(parent, tokens[i], log_probs[i] - log_probs[node]);
  }
  return subtree;
}

void TokenTree::DropDistributions() {
  samples.clear();
  distributions = {};
}

absl::Status TokenTree::Validate(const Limits& limits) const {
  RETURN_IF_ERROR(CheckSizes(*this, limits.max_nodes));
  if (parents[0] != kNoParent) {
    return NodeError(0, absl::StrCat("the root has parent ", parents[0]));
  }
  std::vector<int32_t> depths(tokens.size(), 0);
  for (int64_t i = 0; i < num_nodes(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= limits.vocab_size) {
      return NodeError(
          i, absl::StrCat("token ", tokens[i], " outside the vocabulary of ",
                          limits.vocab_size));
    }
    if (!std::isfinite(log_probs[i]) || log_probs[i] > 0) {
      return NodeError(i, absl::StrCat("log_prob ", log_probs[i],
                                       " is not a finite number <= 0"));
    }
    if (i == 0) continue;
    const int32_t parent = parents[i];
    if (parent < 0 || parent >= i) {
      return NodeError(
          i, absl::StrCat("parent ", parent, " is not an earlier node"));
    }
    if (log_probs[i] > log_probs[parent]) {
      return NodeError(
          i, absl::StrCat("log_prob ", log_probs[i], " above its parent's ",
                          log_probs[parent]));
    }
    depths[i] = depths[parent] + 1;
    if (depths[i] > limits.max_depth) {
      return NodeError(
          i, absl::StrCat("depth ", depths[i], ", limit ", limits.max_depth));
    }
  }
  RETURN_IF_ERROR(distributions.Validate(limits.vocab_size));
  if (!claims_distributions()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSamples(*this));
  return CheckDistinct(*this);
}

std::vector<int32_t> TokenTree::Depths() const {
  std::vector<int32_t> depths(tokens.size(), 0);
  for (int64_t i = 1; i < num_nodes(); ++i) {
    depths[i] = depths[parents[i]] + 1;
  }
  return depths;
}

std::vector<int32_t> TokenTree::PathTo(int32_t node) const {
  std::vector<int32_t> path;
  for (; node > 0; node = parents[node]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace espalier
