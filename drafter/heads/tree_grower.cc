#include "drafter/heads/tree_grower.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "common/model/language_model.h"

namespace espalier::drafter {

// The growing tree of one job. Rows after the sequence's own are the
// lookahead's tokens, then the expanded nodes.
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
      DynamicTree::Shape shape = options.tree;
      shape.least_reach =
          std::max<double>(shape.least_reach, view_.budget.least_reach);
      tree_ = std::make_unique<DynamicTree>(view_.root(), view_.budget, shape);
    }
  }

  const LevelTree& tree() const { return *tree_; }
  bool done() const { return tree_->frontier().empty(); }
  int64_t width() const { return width_; }  // candidates of a node

  // Returns the noise settings for a node's children. A sampled tree ignores
  // the noise.
  NoiseCalibration::Belief BeliefAt(const NoiseCalibration& calibration,
                                    int32_t node) const;
  RowModel::Query QueryAt(const NoiseCalibration::Belief& belief,
                          int32_t node) const;

  void Report() const {
    if (view_.report) view_.report(tree_->Tree());
  }
  void LevelDone() const {
    if (view_.level_done) view_.level_done();
  }
  const SequenceView& view() const { return view_; }
  absl::Status AddLevel();
  absl::Status AddLookahead(TokenId token);
  // Returns the rows of the level or lookahead that was added last.
  RowModel::TreeRows LevelRows() const {
    return {.sequence = sequence_.rows, .parents = parents_, .tokens = tokens_};
  }
  // `ranked`: of the frontier's nodes, as the queries asked for.
  void Expand(absl::Span<const NoiseCalibration::Belief> beliefs,
              absl::Span<std::vector<Candidate>> ranked);

 private:
  int32_t AddRow(TokenId token, int32_t parent);
  absl::Status MakeRoom();
  void Remember(int32_t node, const std::vector<Candidate>& candidates);

  const SequenceView& view_;
  GrownSequence& sequence_;
  const bool is_sampled_;
  const int64_t width_;
  std::unique_ptr<LevelTree> tree_;
  int32_t root_row_ = kPrefixParent;  // or the lookahead's last row
  std::vector<int32_t> row_of_node_;
  std::vector<int32_t> parents_;  // [rows]
  std::vector<TokenId> tokens_;   // of the level in progress
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

RowModel::Query TreeGrower::Growth::QueryAt(
    const NoiseCalibration::Belief& belief, int32_t node) const {
  return {.sequence = sequence_.rows,
          .row = node == 0 ? root_row_ : row_of_node_[node],
          .sampling = belief.sampling,
          .position = std::ssize(view_.tokens) + std::ssize(view_.lookahead) +
                      tree_->node(node).depth};
}

// Makes rows of the frontier's nodes.
absl::Status TreeGrower::Growth::AddLevel() {
  tokens_.clear();
  for (int32_t index : tree_->frontier()) {
    const LevelTree::Node& node = tree_->node(index);
    row_of_node_.resize(std::max<size_t>(row_of_node_.size(), index + 1));
    row_of_node_[index] = AddRow(
        node.token, node.depth == 1 ? root_row_ : row_of_node_[node.parent]);
  }
  return MakeRoom();
}

// Makes rows of the tokens of a lookahead, too.
absl::Status TreeGrower::Growth::AddLookahead(TokenId token) {
  tokens_.clear();
  root_row_ = AddRow(token, root_row_);
  return MakeRoom();
}

int32_t TreeGrower::Growth::AddRow(TokenId token, int32_t parent) {
  tokens_.push_back(token);
  parents_.push_back(parent);
  return static_cast<int32_t>(parents_.size()) - 1;
}

absl::Status TreeGrower::Growth::MakeRoom() {
  if (std::ssize(parents_) > sequence_.model.max_tree_rows()) {
    return absl::ResourceExhaustedError("a tree of too many rows");
  }
  return sequence_.model.Reserve(sequence_.rows,
                                 sequence_.length() + std::ssize(parents_));
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
    for (const Growth* growth : growing) growth->LevelDone();
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

absl::Status TreeGrower::FollowLookahead(Growth& growth) const {
  for (TokenId token : growth.view().lookahead) {
    RETURN_IF_ERROR(growth.AddLookahead(token));
    RETURN_IF_ERROR(model_.Run({growth.LevelRows()}));
  }
  return absl::OkStatus();
}

absl::Status TreeGrower::RunFrontiers(std::vector<Growth*>& growing) const {
  std::vector<Growth*> with_room;
  std::vector<RowModel::TreeRows> batch;
  for (Growth* growth : growing) {
    const absl::Status room = growth->AddLevel();
    if (absl::IsResourceExhausted(room)) continue;
    RETURN_IF_ERROR(room);
    with_room.push_back(growth);
    batch.push_back(growth->LevelRows());
  }
  growing = std::move(with_room);
  return batch.empty() ? absl::OkStatus() : model_.Run(batch);
}

absl::Status TreeGrower::ExpandFrontiers(absl::Span<Growth* const> growing) {
  std::vector<NoiseCalibration::Belief> beliefs;
  std::vector<RowModel::Query> queries;
  int64_t width = 0;
  for (const Growth* growth : growing) {
    width = std::max(width, growth->width());
    for (int32_t node : growth->tree().frontier()) {
      beliefs.push_back(growth->BeliefAt(calibration_, node));
      queries.push_back(growth->QueryAt(beliefs.back(), node));
    }
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> ranked,
                   model_.Rank(queries, width));
  size_t first = 0;
  for (Growth* growth : growing) {
    const size_t size = growth->tree().frontier().size();
    growth->Expand(absl::MakeConstSpan(beliefs).subspan(first, size),
                   absl::MakeSpan(ranked).subspan(first, size));
    first += size;
  }
  return absl::OkStatus();
}

TreeGrower::Options ReadGrowerOptions(OptionReader& reader) {
  return {
      .tree = {.width = reader.Integer("width", {6, 1, 64}),
               .least_reach = reader.Number("least_reach", {0.1, 0.0, 1.0})},
      .sampled = ReadSampledShape(reader),
      .noise_scale = ReadNoiseScale(reader)};
}

}  // namespace espalier::drafter
