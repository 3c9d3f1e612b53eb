// DFlash block drafting with DDTree: one parallel pass gives a law for every
// position of a block, and a heap the best tree under the node budget.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/dflash/ddtree.h"
#include "drafter/dflash/dflash_model.h"
#include "drafter/drafters.h"
#include "drafter/heads/head_machine.h"
#include "drafter/heads/head_target.h"
#include "drafter/option_reader.h"

namespace espalier::drafter {
namespace {

using Block = DflashModel::Block;
using MarginalsOfView = std::vector<std::vector<Candidate>>;

struct DflashOptions {
  bool chain = false;  // the likeliest path alone
  TreeShape shape;     // width: candidates of a position
};

class DflashDrafter final : public Drafter {
 public:
  DflashDrafter(const DflashOptions& options,
                std::unique_ptr<DflashModel> model)
      : options_(options), model_(std::move(model)) {}

  FeatureContract wanted_features() const override {
    return model_->config().features();
  }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    ASSIGN_OR_RETURN(const std::vector<DflashContext*> contexts,
                     CatchUp(batch));
    std::vector<Block> blocks;
    std::vector<size_t> drafted;  // views that have a block
    int64_t width = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const Block block = BlockOf(batch[i], contexts[i]);
      if (block.depth == 0) continue;
      blocks.push_back(block);
      drafted.push_back(i);
      width = std::max(width, WidthOf(batch[i]));
    }
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      trees.push_back(TokenTree::RootOnly(view.tokens.back()));
    }
    if (blocks.empty()) return trees;
    ASSIGN_OR_RETURN(std::vector<MarginalsOfView> marginals,
                     model_->Predict(blocks, width));
    for (size_t b = 0; b < blocks.size(); ++b) {
      trees[drafted[b]] = Grow(batch[drafted[b]], std::move(marginals[b]));
    }
    return trees;
  }

  void Forget(SequenceId id) override { contexts_.erase(id); }

 private:
  // The context of each view with all features there are; null where there is
  // no room for them.
  absl::StatusOr<std::vector<DflashContext*>> CatchUp(
      absl::Span<const SequenceView> batch) {
    std::vector<DflashContext*> contexts;
    std::vector<DflashModel::NewRows> fresh;
    for (const SequenceView& view : batch) {
      RETURN_IF_ERROR(CheckFeatures(view));
      std::unique_ptr<DflashContext>& context = contexts_[view.id];
      if (context == nullptr) context = model_->NewContext();
      const DflashModel::NewRows rows = {
          .context = context.get(),
          .features = view.features == nullptr ? &no_features_ : view.features,
          .root_position = RootPosition(view)};
      const bool has_room = model_->Reserve(rows).ok();
      contexts.push_back(has_room ? context.get() : nullptr);
      if (has_room) fresh.push_back(rows);
    }
    model_->Extend(fresh);
    return contexts;
  }

  absl::Status CheckFeatures(const SequenceView& view) const {
    const int64_t width = wanted_features().width();
    if (view.features == nullptr || view.features->empty() ||
        view.features->width == width) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("features: ", view.features->width,
                     " numbers a position, the drafter wants ", width));
  }

  // Without a context there is nothing to draft from: depth 0.
  Block BlockOf(const SequenceView& view, DflashContext* context) const {
    if (context == nullptr || context->kv.length() == 0) return {};
    return {.context = context,
            .root = view.tokens.back(),
            .root_position = RootPosition(view),
            .sampling = view.sampling,
            .depth = std::min({view.budget.max_nodes, view.budget.max_depth,
                               model_->config().block_size - 1})};
  }

  static int64_t RootPosition(const SequenceView& view) {
    return static_cast<int64_t>(view.tokens.size()) - 1;
  }

  // More candidates than nodes could not be in the tree.
  int64_t WidthOf(const SequenceView& view) const {
    if (options_.chain) return 1;
    const int64_t nodes = std::min(view.budget.max_nodes, kMaxDdtreeNodes);
    return options_.shape.width == 0 ? nodes
                                     : std::min(nodes, options_.shape.width);
  }

  TokenTree Grow(const SequenceView& view, MarginalsOfView marginals) const {
    int64_t position = RootPosition(view);
    for (std::vector<Candidate>& candidates : marginals) {
      // What other views wanted beyond must not change this one's tree.
      candidates.resize(std::min<size_t>(candidates.size(), WidthOf(view)));
      Foresee(view.sampling, ++position, options_.shape.noise_scale,
              candidates);
    }
    DraftBudget budget = view.budget;
    budget.max_nodes = std::min(budget.max_nodes, kMaxDdtreeNodes);
    return (options_.chain ? BuildChain : BuildDdtree)(view.tokens.back(),
                                                       marginals, budget);
  }

  const DflashOptions options_;
  const FeatureRows no_features_;
  const std::unique_ptr<DflashModel> model_;
  // Hold memory of the model.
  absl::flat_hash_map<SequenceId, std::unique_ptr<DflashContext>> contexts_;
};

bool ReadChain(OptionReader& reader) {
  const std::string mode = reader.Text("mode", "ddtree");
  if (mode != "ddtree" && mode != "chain") {
    reader.Fail("mode",
                absl::StrCat("\"", mode, "\" is not one of chain, ddtree"));
  }
  return mode == "chain";
}

absl::StatusOr<std::unique_ptr<DflashModel>> Load(const std::string& folder,
                                                  const HeadTarget& target,
                                                  HeadMachine machine) {
  ASSIGN_OR_RETURN(const DflashConfig config, ReadDflashConfig(folder, target));
  ASSIGN_OR_RETURN(
      auto weights,
      LoadDflashWeights(folder, config, target, machine.dtype, *machine.pool));
  return std::make_unique<DflashModel>(config, std::move(weights),
                                       std::move(machine));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewDflashDrafter(
    const DrafterOptions& options) {
  OptionReader reader("dflash", options.options);
  const std::string folder = reader.RequiredText("model");
  const DflashOptions dflash = {.chain = ReadChain(reader),
                                .shape = ReadTreeShape(reader)};
  HeadMachine machine = ReadHeadMachine(reader);
  RETURN_IF_ERROR(reader.Finish());

  ASSIGN_OR_RETURN(const HeadTarget target, OpenHeadTarget(options));
  absl::StatusOr<std::unique_ptr<DflashModel>> model =
      Load(folder, target, std::move(machine));
  if (!model.ok()) {
    return absl::Status(model.status().code(),
                        absl::StrCat("drafter dflash: option model: ",
                                     model.status().message()));
  }
  return std::make_unique<DflashDrafter>(dflash, *std::move(model));
}

}  // namespace espalier::drafter
