#include "drafter/heads/tree_grower.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "common/base/status_macros.h"
#include "common/model/native/row_batch.h"

namespace espalier::drafter {

// The growing tree of one job. The lookahead's tokens and then the expanded
// nodes are rows after the sequence's own.
class TreeGrower::Growth {
 public:
  Growth(const Job& job, const Options& options)
      : view_(*job.view),
        sequence_(*job.sequence),
        is_sampled_(options.sampled.Draws(view_.sampling)),
        width_(is_sampled_ ? options.sampled.top : options.tree.width) {
    if (is_sampled_) {
      tree_ = std::make_unique<SampledTree>(view_, options.sampled);
    } else {
      tree_ = std::make_unique<DynamicTree>(view_.root(), view_.budget,
                                            options.tree);
    }
  }

  const LevelTree& tree() const { return *tree_; }
  bool done() const { return tree_->frontier().empty(); }
  int64_t width() const { return width_; }  // candidates of a node

  // The noise settings for a node's children. A sampled tree ignores the noise.
  NoiseCalibration::Belief BeliefAt(const NoiseCalibration& calibration,
                                    int32_t node) const;
  CandidateHead::Query QueryAt(const NoiseCalibration::Belief& belief,
                               int32_t node) const;

  void Report() const {
    if (view_.report) view_.report(tree_->Tree());
  }
  const SequenceView& view() const { return view_; }
  absl::Status AddLevel(int64_t hidden);
  absl::Status AddLookahead(TokenId token, int64_t hidden);
  // The rows of the level or lookahead that was added last.
  RowModel::Rows LevelRows(int64_t hidden);
  // The outputs that predict the children of the frontier's nodes.
  absl::Span<const float> FrontierOutputs(int64_t hidden) const;
  // `ranked`: of the frontier's nodes, as the queries asked for.
  void Expand(absl::Span<const NoiseCalibration::Belief> beliefs,
              absl::Span<std::vector<Candidate>> ranked);

 private:
  int32_t AddRow(TokenId token, int32_t parent, int64_t hidden);
  absl::Status MakeRoom(int64_t hidden);
  void Remember(int32_t node, const std::vector<Candidate>& candidates);

  const SequenceView& view_;
  GrownSequence& sequence_;
  const bool is_sampled_;
  const int64_t width_;
  std::unique_ptr<LevelTree> tree_;
  int32_t root_row_ = kPrefixParent;  // or the lookahead's last row
  std::vector<int32_t> row_of_node_;
  std::vector<int32_t> parents_;  // [rows]
  std::vector<float> outputs_;    // [rows, hidden]
  // Of the level in progress.
  std::vector<TokenId> tokens_;
  std::vector<float> features_;  // [tokens, hidden]
};

NoiseCalibration::Belief TreeGrower::Growth::BeliefAt(
    const NoiseCalibration& calibration, int32_t node) const {
  if (!is_sampled_) {
    return calibration.BeliefAt(view_.sampling, tree_->node(node).depth);
  }
  NoiseCalibration::Belief blind = {.sampling = view_.sampling};
  blind.sampling.temperature = 0;
  return blind;
}

CandidateHead::Query TreeGrower::Growth::QueryAt(
    const NoiseCalibration::Belief& belief, int32_t node) const {
  return {.sampling = belief.sampling,
          .position = std::ssize(view_.tokens) + std::ssize(view_.lookahead) +
                      tree_->node(node).depth};
}

// The frontier's nodes become rows.
absl::Status TreeGrower::Growth::AddLevel(int64_t hidden) {
  tokens_.clear();
  features_.clear();
  for (int32_t index : tree_->frontier()) {
    const LevelTree::Node& node = tree_->node(index);
    row_of_node_.resize(std::max<size_t>(row_of_node_.size(), index + 1));
    row_of_node_[index] =
        AddRow(node.token,
               node.depth == 1 ? root_row_ : row_of_node_[node.parent], hidden);
  }
  return MakeRoom(hidden);
}

// Tokens of a lookahead become rows too; for them a head reads its own output
// in place of the target's feature.
absl::Status TreeGrower::Growth::AddLookahead(TokenId token, int64_t hidden) {
  tokens_.clear();
  features_.clear();
  root_row_ = AddRow(token, root_row_, hidden);
  return MakeRoom(hidden);
}

int32_t TreeGrower::Growth::AddRow(TokenId token, int32_t parent,
                                   int64_t hidden) {
  const float* const feature = parent == kPrefixParent
                                   ? sequence_.last_output.data()
                                   : &outputs_[parent * hidden];
  features_.insert(features_.end(), feature, feature + hidden);
  tokens_.push_back(token);
  parents_.push_back(parent);
  return static_cast<int32_t>(parents_.size()) - 1;
}

absl::Status TreeGrower::Growth::MakeRoom(int64_t hidden) {
  outputs_.resize(parents_.size() * hidden);
  return sequence_.cache.Reserve(sequence_.cache.length() +
                                 std::ssize(parents_));
}

RowModel::Rows TreeGrower::Growth::LevelRows(int64_t hidden) {
  const size_t cached = parents_.size() - tokens_.size();
  return {.cache = &sequence_.cache,
          .tree = BuildRowTree(parents_, sequence_.cache.length()),
          .cached_rows = static_cast<int64_t>(cached),
          .tokens = tokens_,
          .features = features_,
          .outputs = absl::MakeSpan(outputs_).subspan(cached * hidden)};
}

absl::Span<const float> TreeGrower::Growth::FrontierOutputs(
    int64_t hidden) const {
  if (parents_.empty()) return sequence_.last_output;
  return absl::MakeConstSpan(outputs_).last(tokens_.size() * hidden);
}

void TreeGrower::Growth::Expand(
    absl::Span<const NoiseCalibration::Belief> beliefs,
    absl::Span<std::vector<Candidate>> ranked) {
  for (size_t i = 0; i < ranked.size(); ++i) {
    std::vector<Candidate>& candidates = ranked[i];
    // Other trees of the pass may have wanted more candidates.
    if (std::ssize(candidates) > width_) candidates.resize(width_);
    if (is_sampled_) continue;
    const int32_t node = tree_->frontier()[i];
    Remember(node, candidates);
    ApplyGumbelCoupling(beliefs[i].sampling, QueryAt(beliefs[i], node).position,
                        beliefs[i].noise_scale, candidates);
  }
  tree_->Expand(ranked);
}

void TreeGrower::Growth::Remember(int32_t node,
                                  const std::vector<Candidate>& candidates) {
  if (view_.sampling.greedy() || !view_.lookahead.empty()) return;
  std::vector<TokenId> path;
  for (; node != 0; node = tree_->node(node).parent) {
    path.push_back(tree_->node(node).token);
  }
  std::reverse(path.begin(), path.end());
  sequence_.forecasts.push_back({std::move(path), candidates});
}

void TreeGrower::Learn(const SequenceView& view, GrownSequence& sequence) {
  const absl::Span<const TokenId> emitted =
      view.tokens.subspan(sequence.forecast_at);
  for (const GrownSequence::Forecast& forecast : sequence.forecasts) {
    const size_t depth = forecast.path.size();
    if (depth < emitted.size() && emitted.first(depth) == forecast.path) {
      calibration_.Observe(view.sampling, static_cast<int64_t>(depth),
                           sequence.forecast_at + static_cast<int64_t>(depth),
                           forecast.candidates, emitted[depth]);
    }
  }
  sequence.forecasts.clear();
  sequence.forecast_at = std::ssize(view.tokens);
}

absl::Status TreeGrower::Append(absl::Span<const TokenId> tokens,
                                absl::Span<const float> features,
                                GrownSequence& sequence) {
  const int64_t hidden = model_.hidden_size();
  const int64_t rows = std::ssize(tokens);
  RETURN_IF_ERROR(sequence.cache.Reserve(sequence.cache.length() + rows));
  std::vector<float> outputs(rows * hidden);
  std::vector<int32_t> chain(rows);
  std::iota(chain.begin(), chain.end(), kPrefixParent);
  model_.Run({{.cache = &sequence.cache,
               .tree = BuildRowTree(chain, sequence.cache.length()),
               .tokens = tokens,
               .features = features,
               .outputs = absl::MakeSpan(outputs)}});
  std::iota(chain.begin(), chain.end(), 0);
  sequence.cache.Keep(chain);
  sequence.last_output.assign(outputs.end() - hidden, outputs.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenTree>> TreeGrower::Draft(
    absl::Span<const SequenceView> views, Drafter& drafter, CatchUp catch_up) {
  std::vector<TokenTree> trees;
  std::vector<Job> jobs;
  std::vector<size_t> grown;
  for (const SequenceView& view : views) {
    trees.push_back(TokenTree::RootOnly(view.root()));
    const absl::StatusOr<GrownSequence*> sequence = catch_up(view);
    if (absl::IsResourceExhausted(sequence.status())) {
      drafter.Forget(view.id);
      continue;
    }
    RETURN_IF_ERROR(sequence.status());
    if (*sequence == nullptr) continue;
    grown.push_back(trees.size() - 1);
    jobs.push_back({.view = &view, .sequence = *sequence});
  }
  ASSIGN_OR_RETURN(std::vector<TokenTree> done, Grow(jobs));
  for (size_t i = 0; i < done.size(); ++i) trees[grown[i]] = std::move(done[i]);
  return trees;
}

absl::StatusOr<std::vector<TokenTree>> TreeGrower::Grow(
    absl::Span<const Job> jobs) {
  std::vector<Growth> growths;
  growths.reserve(jobs.size());
  std::vector<Growth*> growing;
  for (const Job& job : jobs) {
    Growth& growth = growths.emplace_back(job, options_);
    if (growth.done()) continue;
    const absl::Status followed = FollowLookahead(growth);
    if (absl::IsResourceExhausted(followed)) continue;
    RETURN_IF_ERROR(followed);
    growing.push_back(&growth);
  }
  RETURN_IF_ERROR(ExpandFrontiers(growing));
  for (;;) {
    const auto is_done = [](const Growth* growth) { return growth->done(); };
    growing.erase(std::remove_if(growing.begin(), growing.end(), is_done),
                  growing.end());
    if (growing.empty()) break;
    for (const Growth* growth : growing) growth->Report();
    RETURN_IF_ERROR(RunFrontiers(growing));
    RETURN_IF_ERROR(ExpandFrontiers(growing));
  }
  std::vector<TokenTree> trees;
  for (const Growth& growth : growths) trees.push_back(growth.tree().Tree());
  return trees;
}

absl::Status TreeGrower::FollowLookahead(Growth& growth) {
  const int64_t hidden = model_.hidden_size();
  for (TokenId token : growth.view().lookahead) {
    RETURN_IF_ERROR(growth.AddLookahead(token, hidden));
    model_.Run({growth.LevelRows(hidden)});
  }
  return absl::OkStatus();
}

absl::Status TreeGrower::RunFrontiers(std::vector<Growth*>& growing) {
  const int64_t hidden = model_.hidden_size();
  std::vector<Growth*> with_room;
  std::vector<RowModel::Rows> batch;
  for (Growth* growth : growing) {
    const absl::Status room = growth->AddLevel(hidden);
    if (absl::IsResourceExhausted(room)) continue;
    RETURN_IF_ERROR(room);
    with_room.push_back(growth);
    batch.push_back(growth->LevelRows(hidden));
  }
  growing = std::move(with_room);
  if (!batch.empty()) model_.Run(batch);
  return absl::OkStatus();
}

absl::Status TreeGrower::ExpandFrontiers(absl::Span<Growth* const> growing) {
  std::vector<float> outputs;
  std::vector<NoiseCalibration::Belief> beliefs;
  std::vector<CandidateHead::Query> queries;
  int64_t width = 0;
  for (const Growth* growth : growing) {
    const auto own = growth->FrontierOutputs(model_.hidden_size());
    outputs.insert(outputs.end(), own.begin(), own.end());
    width = std::max(width, growth->width());
    for (int32_t node : growth->tree().frontier()) {
      beliefs.push_back(growth->BeliefAt(calibration_, node));
      queries.push_back(growth->QueryAt(beliefs.back(), node));
    }
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> ranked,
                   model_.Rank(outputs.data(), queries, width));
  size_t first = 0;
  for (Growth* growth : growing) {
    const size_t size = growth->tree().frontier().size();
    growth->Expand(absl::MakeConstSpan(beliefs).subspan(first, size),
                   absl::MakeSpan(ranked).subspan(first, size));
    first += size;
  }
  return absl::OkStatus();
}

TreeGrower::Options ReadGrowerOptions(OptionReader& reader,
                                      bool supports_lookahead) {
  return {
      .tree = {.width = reader.Integer("width", {6, 1, 64}),
               .least_reach = reader.Number("least_reach", {0.1, 0.0, 1.0})},
      .sampled = ReadSampledShape(reader),
      .noise_scale = ReadNoiseScale(reader),
      .supports_lookahead = reader.Flag("drafts_ahead", supports_lookahead)};
}

}  // namespace espalier::drafter
