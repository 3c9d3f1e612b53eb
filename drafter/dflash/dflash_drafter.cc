// DFlash block drafting with DDTree: one parallel pass gives a distribution for
// every position of a block, and a heap the best tree under the node budget.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "drafter/dflash/cuda_dflash_model.h"
#include "drafter/dflash/ddtree.h"
#include "drafter/dflash/dflash_model.h"
#include "drafter/engine/drafter_factories.h"
#include "drafter/engine/option_reader.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/head_target.h"
#include "drafter/trees/noise_calibration.h"

namespace espalier::drafter {
namespace {

using Block = BlockModel::Block;
using MarginalsOfView = std::vector<std::vector<Candidate>>;

struct DflashOptions {
  bool chain = false;                 // the likeliest path alone
  int64_t width = 0;                  // candidates per position; 0: no limit
  std::optional<double> noise_scale;  // none: learned
};

struct BlockSequence {
  // `model` must outlive the sequence.
  explicit BlockSequence(BlockModel* of)
      : model(*of), context(model.NewContext()) {}
  ~BlockSequence() { model.Release(context); }
  BlockSequence(const BlockSequence&) = delete;
  BlockSequence& operator=(const BlockSequence&) = delete;

  BlockModel& model;
  const BlockModel::Context context;
  bool has_room = false;  // for all features and a block
  // The last prediction, before ApplyGumbelCoupling, and the token count that
  // it followed. Filled under sampling only.
  MarginalsOfView forecast;
  int64_t forecast_at = 0;
};

class DflashDrafter final : public Drafter {
 public:
  DflashDrafter(const DflashOptions& options, std::unique_ptr<BlockModel> model)
      : options_(options),
        model_(std::move(model)),
        calibration_(options.noise_scale) {}

  FeatureStore* features() override { return &model_->features(); }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override;

  void Forget(SequenceId id) override { sequences_.erase(id); }

 private:
  BlockSequence& Get(const SequenceView& view);
  absl::Status CatchUp(absl::Span<const SequenceView> batch);
  void Learn(const SequenceView& view, BlockSequence& sequence);
  Block BlockOf(const SequenceView& view, const BlockSequence& sequence) const;
  int64_t WidthOf(const SequenceView& view) const;
  TokenTree Grow(const SequenceView& view, const Block& block,
                 MarginalsOfView marginals);

  const DflashOptions options_;
  const std::unique_ptr<BlockModel> model_;
  NoiseCalibration calibration_;
  // Their contexts hold memory of the model.
  absl::flat_hash_map<SequenceId, std::unique_ptr<BlockSequence>> sequences_;
};

int64_t RootPosition(const SequenceView& view) {
  return static_cast<int64_t>(view.tokens.size()) - 1;
}

bool Lists(const std::vector<Candidate>& candidates, TokenId token) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [token](const Candidate& c) { return c.token == token; });
}

absl::StatusOr<std::vector<TokenTree>> DflashDrafter::Draft(
    absl::Span<const SequenceView> batch) {
  RETURN_IF_ERROR(CatchUp(batch));
  std::vector<TokenTree> trees;
  std::vector<Block> blocks;
  std::vector<size_t> drafted;  // views that have a block
  int64_t width = 0;
  for (const SequenceView& view : batch) {
    trees.push_back(TokenTree::RootOnly(view.tokens.back()));
    Block block = BlockOf(view, Get(view));
    if (block.wanted.empty()) continue;
    blocks.push_back(std::move(block));
    drafted.push_back(trees.size() - 1);
    width = std::max(width, WidthOf(view));
  }
  if (blocks.empty()) return trees;
  ASSIGN_OR_RETURN(std::vector<MarginalsOfView> marginals,
                   model_->Predict(blocks, width));
  for (size_t b = 0; b < blocks.size(); ++b) {
    trees[drafted[b]] =
        Grow(batch[drafted[b]], blocks[b], std::move(marginals[b]));
  }
  return trees;
}

BlockSequence& DflashDrafter::Get(const SequenceView& view) {
  std::unique_ptr<BlockSequence>& sequence = sequences_[view.id];
  if (sequence == nullptr) {
    sequence = std::make_unique<BlockSequence>(model_.get());
  }
  return *sequence;
}

absl::Status DflashDrafter::CatchUp(absl::Span<const SequenceView> batch) {
  std::vector<BlockModel::NewRows> fresh;
  for (const SequenceView& view : batch) {
    BlockSequence& sequence = Get(view);
    Learn(view, sequence);
    const BlockModel::NewRows rows = {.context = sequence.context,
                                      .id = view.id,
                                      .features = view.features,
                                      .root_position = RootPosition(view)};
    model_->Share(sequence.context, view.tokens.first(RootPosition(view)),
                  view.cache_salt);
    sequence.has_room = model_->Reserve(rows).ok();
    if (sequence.has_room) fresh.push_back(rows);
  }
  return model_->Extend(fresh);
}

// Compares the last forecast with the tokens that the target has emitted since,
// as far as they followed the forecast.
void DflashDrafter::Learn(const SequenceView& view, BlockSequence& sequence) {
  const absl::Span<const TokenId> emitted =
      view.tokens.subspan(sequence.forecast_at);
  const size_t depths = std::min(emitted.size(), sequence.forecast.size());
  for (size_t d = 0; d < depths; ++d) {
    const int64_t depth = static_cast<int64_t>(d);
    calibration_.Observe(view.sampling, depth, sequence.forecast_at + depth,
                         sequence.forecast[d], emitted[d]);
    if (!Lists(sequence.forecast[d], emitted[d])) break;
  }
  sequence.forecast.clear();
  sequence.forecast_at = static_cast<int64_t>(view.tokens.size());
}

// Without a context there is nothing to draft from, so no position is wanted.
Block DflashDrafter::BlockOf(const SequenceView& view,
                             const BlockSequence& sequence) const {
  if (!sequence.has_room || model_->Length(sequence.context) == 0) return {};
  Block block = {.context = sequence.context,
                 .root = view.tokens.back(),
                 .root_position = RootPosition(view)};
  const int64_t depth = std::min({view.budget.max_nodes, view.budget.max_depth,
                                  model_->config().block_size - 1});
  for (int64_t d = 0; d < depth; ++d) {
    block.wanted.push_back(calibration_.BeliefAt(view.sampling, d).sampling);
  }
  return block;
}

// More candidates than nodes could not be in the tree.
int64_t DflashDrafter::WidthOf(const SequenceView& view) const {
  if (options_.chain) return 1;
  const int64_t nodes = std::min(view.budget.max_nodes, kMaxDdtreeNodes);
  return options_.width == 0 ? nodes : std::min(nodes, options_.width);
}

TokenTree DflashDrafter::Grow(const SequenceView& view, const Block& block,
                              MarginalsOfView marginals) {
  // Further candidates, wanted by other views, must not change this tree.
  for (std::vector<Candidate>& candidates : marginals) {
    candidates.resize(std::min<size_t>(candidates.size(), WidthOf(view)));
  }
  if (!view.sampling.greedy()) Get(view).forecast = marginals;
  for (size_t d = 0; d < marginals.size(); ++d) {
    const int64_t depth = static_cast<int64_t>(d);
    const auto belief = calibration_.BeliefAt(view.sampling, depth);
    ApplyGumbelCoupling(belief.sampling, block.root_position + 1 + depth,
                        belief.noise_scale, marginals[d]);
  }
  const DraftBudget budget =
      view.budget.WithNodes(std::min(view.budget.max_nodes, kMaxDdtreeNodes));
  return options_.chain ? BuildChain(block.root, marginals, budget)
                        : BuildDdtree(block.root, marginals, budget);
}

bool ReadChain(OptionReader& reader) {
  const std::string mode = reader.Text("mode", "ddtree");
  if (mode != "ddtree" && mode != "chain") {
    reader.Fail("mode",
                absl::StrCat("\"", mode, "\" is not one of chain, ddtree"));
  }
  return mode == "chain";
}

absl::StatusOr<std::unique_ptr<BlockModel>> LoadDflashOnCpu(
    const std::string& folder, const HeadTarget& target, HeadRuntime runtime) {
  ASSIGN_OR_RETURN(const DflashConfig config, ReadDflashConfig(folder, target));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   OpenDflash(folder, config, runtime.random_weights));
  ASSIGN_OR_RETURN(
      auto weights,
      LoadDflashWeights(files, config, target, runtime.dtype, *runtime.pool));
  return std::make_unique<DflashModel>(config, std::move(weights),
                                       std::move(runtime));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewDflashDrafter(
    const DrafterOptions& options) {
  OptionReader reader("dflash", options.options);
  const std::string folder = reader.RequiredText("model");
  const DflashOptions dflash = {
      .chain = ReadChain(reader),
      .width = reader.Integer("width", {0, 0, kMaxDdtreeNodes}),
      .noise_scale = ReadNoiseScale(reader)};
  HeadRuntime runtime = ReadHeadRuntime(reader);
  RETURN_IF_ERROR(reader.Finish());

  ASSIGN_OR_RETURN(const HeadTarget target,
                   OpenHeadTarget(options, runtime.random_weights));
  absl::StatusOr<std::unique_ptr<BlockModel>> model;
  if (runtime.is_cpu()) {
    model = LoadDflashOnCpu(folder, target, std::move(runtime));
  } else {
    ASSIGN_OR_RETURN(auto device, runtime.OpenDevice("dflash"));
    model = LoadDflashOnGpu(folder, target, runtime, std::move(device));
  }
  if (!model.ok()) {
    return absl::Status(model.status().code(),
                        absl::StrCat("drafter dflash: option model: ",
                                     model.status().message()));
  }
  return std::make_unique<DflashDrafter>(dflash, *std::move(model));
}

}  // namespace espalier::drafter
