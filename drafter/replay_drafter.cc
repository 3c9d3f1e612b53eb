// This drafter is for measurements. It lets another drafter draft, and puts
// known text into its trees. So a round costs what it costs with that drafter,
// and accepts what the given hit rates say, whatever the weights. The drafter
// "comb" costs nothing. It is a type of the services because these are what is
// measured, with targets for which no network is trained or whose weights are
// random: tests/device/rounds.py, tests/benchmark/shape_rounds.py.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "drafter/drafters.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"

namespace espalier::drafter {
namespace {

constexpr char kInnerPrefix[] = "drafter.";

using Text = std::vector<TokenId>;

struct ReplayOptions {
  std::vector<Text> texts;    // prompts included
  std::vector<double> rates;  // by depth; the last one holds below, too
  uint64_t seed = 0;
  int64_t vocab_size = 0;
};

// [num_nodes] how many levels lie below each node.
std::vector<int32_t> Heights(const TokenTree& tree) {
  std::vector<int32_t> heights(tree.num_nodes());
  for (int64_t i = tree.num_nodes() - 1; i > 0; --i) {
    int32_t& parent = heights[tree.parents[i]];
    parent = std::max(parent, heights[i] + 1);
  }
  return heights;
}

// Returns the child with most levels below it, the first of several; 0: none.
int32_t TallestChild(const TokenTree& tree, const std::vector<int32_t>& heights,
                     int32_t node) {
  int32_t tallest = 0;
  for (int32_t i = node + 1; i < tree.num_nodes(); ++i) {
    if (tree.parents[i] != node) continue;
    if (tallest == 0 || heights[i] > heights[tallest]) tallest = i;
  }
  return tallest;
}

// Trees that cost nothing, as many nodes as are asked for: a spine of the
// greatest depth, and siblings of its nodes in turn.
class CombDrafter final : public Drafter {
 public:
  explicit CombDrafter(int64_t vocab_size) : vocab_size_(vocab_size) {}

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) trees.push_back(TreeOf(view));
    return trees;
  }

  void Forget(SequenceId) override {}

 private:
  TokenTree TreeOf(const SequenceView& view) const {
    constexpr float kLogHit = -0.2f, kLogMiss = -2.5f;
    const auto nodes = static_cast<int32_t>(view.budget.max_nodes);
    const auto depth =
        std::min(nodes, static_cast<int32_t>(view.budget.max_depth));
    TokenTree tree = TokenTree::RootOnly(view.root());
    for (int32_t node = 0; node < nodes && depth > 0; ++node) {
      const bool is_spine = node < depth;
      const int32_t parent = is_spine ? node : node % depth;
      tree.Add(parent,
               static_cast<TokenId>((view.root() + node / depth) % vocab_size_),
               tree.log_probs[parent] + (is_spine ? kLogHit : kLogMiss));
    }
    return tree;
  }

  const int64_t vocab_size_;
};

class ReplayDrafter final : public Drafter {
 public:
  ReplayDrafter(ReplayOptions options, std::unique_ptr<Drafter> inner)
      : options_(std::move(options)), inner_(std::move(inner)) {}

  FeatureStore* features() override { return inner_->features(); }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    std::vector<SequenceView> views(batch.begin(), batch.end());
    for (SequenceView& view : views) {
      if (!view.report) continue;
      view.report = [this, tokens = view.tokens,
                     report = view.report](TokenTree tree) {
        Relabel(tokens, tree);
        report(std::move(tree));
      };
    }
    ASSIGN_OR_RETURN(std::vector<TokenTree> trees, inner_->Draft(views));
    for (size_t i = 0; i < trees.size(); ++i) {
      Relabel(views[i].tokens, trees[i]);
    }
    return trees;
  }

  void Forget(SequenceId id) override { inner_->Forget(id); }

 private:
  // Returns what follows `tokens` in a text that begins with them.
  absl::Span<const TokenId> Following(absl::Span<const TokenId> tokens) const {
    for (const Text& text : options_.texts) {
      if (text.size() > tokens.size() &&
          std::equal(tokens.begin(), tokens.end(), text.begin())) {
        return absl::MakeConstSpan(text).subspan(tokens.size());
      }
    }
    return {};
  }

  // Nodes that hit: a path from the root, as deep as is sampled.
  std::vector<int32_t> HitPath(const TokenTree& tree, uint64_t position,
                               size_t max_depth) const {
    std::mt19937_64 random(options_.seed ^ (position * 0x9E3779B97F4A7C15));
    std::uniform_real_distribution<double> uniform;
    const std::vector<int32_t> heights = Heights(tree);
    std::vector<int32_t> path;
    int32_t node = 0;
    while (path.size() < max_depth) {
      node = TallestChild(tree, heights, node);
      const size_t rate = std::min(path.size(), options_.rates.size() - 1);
      if (node == 0 || uniform(random) >= options_.rates[rate]) break;
      path.push_back(node);
    }
    return path;
  }

  // Gives each node another token, siblings different ones: the text's along
  // the path that hits, and others elsewhere. A tree after an unknown text
  // stays as it is.
  void Relabel(absl::Span<const TokenId> tokens, TokenTree& tree) const {
    const absl::Span<const TokenId> text = Following(tokens);
    if (text.empty()) return;
    const std::vector<int32_t> path = HitPath(tree, tokens.size(), text.size());
    // Siblings count up from a token that none of them has, except the hit.
    std::vector<TokenId> next_child(tree.num_nodes());
    next_child[0] = text[0];
    size_t hits = 0;
    for (int32_t i = 1; i < tree.num_nodes(); ++i) {
      TokenId& sibling = next_child[tree.parents[i]];
      if (hits < path.size() && path[hits] == i) {
        tree.tokens[i] = text[hits++];
        next_child[i] = hits < text.size() ? text[hits] : tree.tokens[i];
      } else {
        sibling = static_cast<TokenId>((sibling + 1) % options_.vocab_size);
        tree.tokens[i] = next_child[i] = sibling;
      }
    }
    tree.DropDistributions();
  }

  const ReplayOptions options_;
  const std::unique_ptr<Drafter> inner_;
};

// Numbers separated by commas or blanks. False: it has something else.
bool ParseText(absl::string_view line, int64_t vocab_size, Text& text) {
  for (absl::string_view word :
       absl::StrSplit(line, absl::ByAnyChar(", \t\r"), absl::SkipEmpty())) {
    TokenId& token = text.emplace_back();
    if (!absl::SimpleAtoi(word, &token) || token < 0 || token >= vocab_size) {
      return false;
    }
  }
  return true;
}

std::vector<Text> ReadTexts(OptionReader& reader, int64_t vocab_size) {
  const std::string path = reader.RequiredText("texts");
  std::vector<Text> texts;
  std::ifstream file(path);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    Text text;
    if (!ParseText(line, vocab_size, text)) {
      reader.Fail("texts", absl::StrCat(path, ":", number,
                                        ": not token ids below ", vocab_size));
    }
    if (!text.empty()) texts.push_back(std::move(text));
  }
  if (texts.empty()) {
    reader.Fail("texts", absl::StrCat(path, ": not a file with token ids"));
  }
  return texts;
}

std::vector<double> ReadRates(OptionReader& reader) {
  std::vector<double> rates;
  const std::string text = reader.Text("rates", "0.8");
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    double& rate = rates.emplace_back();
    if (!absl::SimpleAtod(word, &rate) || !(rate >= 0 && rate <= 1)) {
      reader.Fail("rates", absl::StrCat("\"", word, "\" is not in 0 .. 1"));
    }
  }
  return rates;
}

absl::StatusOr<std::unique_ptr<Drafter>> MakeInner(
    const std::string& type, const DrafterOptions& options,
    std::map<std::string, std::string> inner_options) {
  if (type == "replay") {
    return absl::InvalidArgumentError(
        "drafter replay: option drafter: cannot be replay itself");
  }
  if (type == "comb") return std::make_unique<CombDrafter>(options.vocab_size);
  DrafterRegistry registry("drafter type");
  RegisterDrafters(registry);
  DrafterOptions inner = options;
  inner.options = std::move(inner_options);
  return registry.Create(type, inner);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewReplayDrafter(
    const DrafterOptions& options) {
  std::map<std::string, std::string> own, inner;
  for (const auto& [name, value] : options.options) {
    absl::string_view rest = name;
    const bool is_inner = absl::ConsumePrefix(&rest, kInnerPrefix);
    (is_inner ? inner : own)[std::string(rest)] = value;
  }
  OptionReader reader("replay", own);
  const std::string type = reader.RequiredText("drafter");
  const ReplayOptions replay = {
      .texts = ReadTexts(reader, options.vocab_size),
      .rates = ReadRates(reader),
      .seed = static_cast<uint64_t>(reader.Integer("seed", {0, 0, 1 << 30})),
      .vocab_size = options.vocab_size};
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter,
                   MakeInner(type, options, std::move(inner)));
  return std::make_unique<ReplayDrafter>(replay, std::move(drafter));
}

}  // namespace espalier::drafter
