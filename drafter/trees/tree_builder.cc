#include "drafter/trees/tree_builder.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "common/base/check.h"

namespace espalier::drafter {
namespace {

// A node that the tree could grow next.
struct Bud {
  double log_prob = 0;  // of the path
  int64_t order = 0;    // of discovery
  int32_t parent = 0;
  TokenId token = 0;
};

struct Later {
  bool operator()(const Bud& a, const Bud& b) const {
    return a.log_prob != b.log_prob ? a.log_prob < b.log_prob
                                    : a.order > b.order;
  }
};

class TreeBuilder {
 public:
  TreeBuilder(const SequenceView& view, const TreeShape& shape,
              NextTokens next_tokens)
      : view_(view),
        shape_(shape),
        next_tokens_(next_tokens),
        tree_(TokenTree::RootOnly(view.tokens.back())) {}

  TokenTree Build() && {
    Bud root;
    if (HasRoom()) Expand(0, root);
    while (HasRoom() && !buds_.empty()) {
      const Bud bud = buds_.top();
      buds_.pop();
      const int32_t node =
          tree_.Add(bud.parent, bud.token, static_cast<float>(bud.log_prob));
      if (HasRoom()) Expand(node, bud);
    }
    return std::move(tree_);
  }

 private:
  bool HasRoom() const { return tree_.num_nodes() <= view_.budget.max_nodes; }

  void Expand(int32_t node, const Bud& grown) {
    std::vector<TokenId> path;
    for (int32_t i : tree_.PathTo(node)) path.push_back(tree_.tokens[i]);
    if (static_cast<int64_t>(path.size()) >= view_.budget.max_depth) return;

    std::vector<Candidate> candidates = next_tokens_(path);
    const int64_t position =
        static_cast<int64_t>(view_.tokens.size() + path.size());
    ApplyGumbelCoupling(view_.sampling, position, shape_.noise_scale,
                        candidates);
    int64_t count = static_cast<int64_t>(candidates.size());
    if (shape_.width > 0) count = std::min(count, shape_.width);
    for (int64_t i = 0; i < count; ++i) {
      buds_.push({.log_prob = grown.log_prob + candidates[i].log_prob,
                  .order = next_order_++,
                  .parent = node,
                  .token = candidates[i].token});
    }
  }

  const SequenceView& view_;
  const TreeShape& shape_;
  const NextTokens next_tokens_;
  TokenTree tree_;
  std::priority_queue<Bud, std::vector<Bud>, Later> buds_;
  int64_t next_order_ = 0;
};

}  // namespace

TreeShape ReadTreeShape(OptionReader& reader, double noise_scale) {
  return {
      .width = reader.Integer("width", {0, 0, 1024}),
      .noise_scale = reader.Number("noise_scale", {noise_scale, 0.01, 100})};
}

TokenTree BuildTree(const SequenceView& view, const TreeShape& shape,
                    NextTokens next_tokens) {
  ESPALIER_CHECK(!view.tokens.empty());
  return TreeBuilder(view, shape, next_tokens).Build();
}

std::vector<TokenId> RecentTokens(absl::Span<const TokenId> tokens,
                                  absl::Span<const TokenId> path,
                                  int64_t length) {
  const size_t wanted = static_cast<size_t>(length);
  const size_t from_path = std::min(wanted, path.size());
  const size_t from_tokens = std::min(wanted - from_path, tokens.size());
  const auto head = tokens.last(from_tokens);
  const auto tail = path.last(from_path);
  std::vector<TokenId> recent(head.begin(), head.end());
  recent.insert(recent.end(), tail.begin(), tail.end());
  return recent;
}

}  // namespace espalier::drafter
