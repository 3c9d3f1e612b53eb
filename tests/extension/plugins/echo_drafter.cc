#include <algorithm>
#include <memory>
#include <vector>

#include "tests/extension/plugins/plugins.h"

namespace espalier::extension {
namespace {

// Proposes the first tokens of the text again, as one chain.
class EchoDrafter final : public drafter::Drafter {
 public:
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const drafter::SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const drafter::SequenceView& view : batch) {
      TokenTree& tree = trees.emplace_back(TokenTree::RootOnly(view.root()));
      const int64_t length =
          std::min({view.budget.max_nodes, view.budget.max_depth,
                    static_cast<int64_t>(view.tokens.size())});
      for (int32_t i = 0; i < length; ++i) {
        tree.Add(i, view.tokens[i], -0.5f * static_cast<float>(i + 1));
      }
    }
    return trees;
  }
  void Forget(SequenceId /*id*/) override {}
};

}  // namespace

void RegisterEchoDrafter(drafter::DrafterRegistry& registry) {
  registry.Add("echo", [](const drafter::DrafterOptions&) {
    return std::make_unique<EchoDrafter>();
  });
}

}  // namespace espalier::extension
