// Drafts with an EAGLE head: one small layer that continues the target's hidden
// states, and a tree grown level by level (dynamic_tree.h).
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/row_batch.h"
#include "drafter/drafters.h"
#include "drafter/eagle/dynamic_tree.h"
#include "drafter/eagle/eagle_model.h"
#include "drafter/eagle/eagle_weights.h"
#include "drafter/heads/head_machine.h"
#include "drafter/heads/head_target.h"
#include "drafter/noise_calibration.h"
#include "drafter/option_reader.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kRowsPerPass = 256;  // of a long prompt
constexpr int64_t kKvPoolTokens = int64_t{1} << 20;

// What the head expected after the committed text and `path`.
struct Forecast {
  std::vector<TokenId> path;
  std::vector<Candidate> candidates;  // as they are before Foresee
};

// What the head has computed of a sequence: a row for every position from
// first_position on whose feature is there, up to `end`.
struct Sequence {
  explicit Sequence(KvPageStore* pages) : cache(pages) {}

  PagedKvCache cache;
  int64_t first_position = 0;
  std::vector<float> last_output;  // [hidden] of the last row; empty: none
  // Of the last tree, which was drafted after so many tokens. Under sampling.
  std::vector<Forecast> forecasts;
  int64_t forecast_at = 0;

  int64_t end() const { return first_position + cache.length(); }
};

// The growing tree of one view. A guess and what was expanded are rows behind
// the sequence's own, in this order.
struct Growth {
  const SequenceView& view;
  Sequence& sequence;
  DynamicTree tree;
  int32_t root_row = kPrefixParent;  // or that of the guess's last token
  std::vector<int32_t> row_of_node;
  std::vector<int32_t> parents;  // [rows]
  std::vector<float> outputs;    // [rows, hidden]
  // Of the level in progress.
  std::vector<TokenId> tokens;
  std::vector<float> features;  // [tokens, hidden]

  absl::Status AddLevel(int64_t hidden);
  absl::Status AddGuess(TokenId token, int64_t hidden);
  // Of the level, or the guess, that was added last.
  EagleModel::Rows LevelRows(int64_t hidden);
  // What says which tokens follow the frontier's nodes.
  absl::Span<const float> FrontierOutputs(int64_t hidden) const;
  int64_t root_position() const {
    return static_cast<int64_t>(view.tokens.size() + view.guess.size()) - 1;
  }
  void Remember(int32_t node, const std::vector<Candidate>& candidates);

 private:
  int32_t AddRow(TokenId token, int32_t parent, int64_t hidden);
  absl::Status MakeRoom(int64_t hidden);
};

// The frontier's nodes become rows.
absl::Status Growth::AddLevel(int64_t hidden) {
  tokens.clear();
  features.clear();
  for (int32_t index : tree.frontier()) {
    const DynamicTree::Node& node = tree.node(index);
    row_of_node.resize(std::max<size_t>(row_of_node.size(), index + 1));
    row_of_node[index] =
        AddRow(node.token,
               node.depth == 1 ? root_row : row_of_node[node.parent], hidden);
  }
  return MakeRoom(hidden);
}

// So does a token that is only guessed, with what the head expects in place of
// the target's feature.
absl::Status Growth::AddGuess(TokenId token, int64_t hidden) {
  tokens.clear();
  features.clear();
  root_row = AddRow(token, root_row, hidden);
  return MakeRoom(hidden);
}

int32_t Growth::AddRow(TokenId token, int32_t parent, int64_t hidden) {
  const float* const feature = parent == kPrefixParent
                                   ? sequence.last_output.data()
                                   : &outputs[parent * hidden];
  features.insert(features.end(), feature, feature + hidden);
  tokens.push_back(token);
  parents.push_back(parent);
  return static_cast<int32_t>(parents.size()) - 1;
}

absl::Status Growth::MakeRoom(int64_t hidden) {
  outputs.resize(parents.size() * hidden);
  return sequence.cache.Reserve(sequence.cache.length() +
                                static_cast<int64_t>(parents.size()));
}

EagleModel::Rows Growth::LevelRows(int64_t hidden) {
  const size_t cached = parents.size() - tokens.size();
  return {.cache = &sequence.cache,
          .tree = BuildRowTree(parents, sequence.cache.length()),
          .cached_rows = static_cast<int64_t>(cached),
          .tokens = tokens,
          .features = features,
          .outputs = absl::MakeSpan(outputs).subspan(cached * hidden)};
}

absl::Span<const float> Growth::FrontierOutputs(int64_t hidden) const {
  if (parents.empty()) return sequence.last_output;
  return absl::MakeConstSpan(outputs).last(tokens.size() * hidden);
}

void Growth::Remember(int32_t node, const std::vector<Candidate>& candidates) {
  if (view.sampling.greedy() || !view.guess.empty()) return;
  std::vector<TokenId> path;
  for (; node != 0; node = tree.node(node).parent) {
    path.push_back(tree.node(node).token);
  }
  std::reverse(path.begin(), path.end());
  sequence.forecasts.push_back({std::move(path), candidates});
}

class EagleDrafter final : public Drafter {
 public:
  struct Options {
    DynamicTree::Shape tree;
    std::optional<double> noise_scale;  // none: learned
    // Whether to draft behind a guess, with the head's own states in place of
    // the target's: such trees are poorer than those of the round itself.
    bool drafts_ahead = false;
  };

  EagleDrafter(LoadedEagle head, HeadMachine machine, const Options& options)
      : model_(std::move(head), std::move(machine), kKvPoolTokens),
        shape_(options.tree),
        drafts_ahead_(options.drafts_ahead),
        calibration_(options.noise_scale) {}

  FeatureContract wanted_features() const override {
    return model_.config().features();
  }

  bool drafts_ahead() const override { return drafts_ahead_; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override;
  void Forget(SequenceId id) override { sequences_.erase(id); }

 private:
  Sequence& Get(const SequenceView& view);
  absl::Status CatchUp(const SequenceView& view, Sequence& sequence);
  absl::Status Append(const SequenceView& view, int64_t rows,
                      Sequence& sequence);
  void Learn(const SequenceView& view, Sequence& sequence);

  absl::Status Grow(std::vector<Growth>& growths);
  absl::Status FollowGuess(Growth& growth);
  absl::Status RunFrontiers(std::vector<Growth*>& growing);
  absl::Status ExpandFrontiers(absl::Span<Growth* const> growing);

  EagleModel model_;
  const DynamicTree::Shape shape_;
  const bool drafts_ahead_;
  NoiseCalibration calibration_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
};

absl::StatusOr<std::vector<TokenTree>> EagleDrafter::Draft(
    absl::Span<const SequenceView> batch) {
  std::vector<TokenTree> trees;
  std::vector<Growth> growths;
  std::vector<size_t> grown;
  for (const SequenceView& view : batch) {
    trees.push_back(TokenTree::RootOnly(view.root()));
    Sequence& sequence = Get(view);
    Learn(view, sequence);
    const absl::Status caught_up = CatchUp(view, sequence);
    if (absl::IsResourceExhausted(caught_up)) {
      Forget(view.id);  // others keep their room, this one starts again
      continue;
    }
    RETURN_IF_ERROR(caught_up);
    const int64_t root = static_cast<int64_t>(view.tokens.size()) - 1;
    if (sequence.end() != root || sequence.last_output.empty()) continue;
    grown.push_back(trees.size() - 1);
    growths.push_back({.view = view,
                       .sequence = sequence,
                       .tree = DynamicTree(view.root(), view.budget, shape_)});
  }
  RETURN_IF_ERROR(Grow(growths));
  for (size_t i = 0; i < growths.size(); ++i) {
    trees[grown[i]] = growths[i].tree.Best();
  }
  return trees;
}

Sequence& EagleDrafter::Get(const SequenceView& view) {
  std::unique_ptr<Sequence>& held = sequences_[view.id];
  if (held == nullptr) held = std::make_unique<Sequence>(&model_.pages());
  return *held;
}

// Compares the last tree's forecasts with what the target has emitted since.
void EagleDrafter::Learn(const SequenceView& view, Sequence& sequence) {
  const absl::Span<const TokenId> emitted =
      view.tokens.subspan(sequence.forecast_at);
  for (const Forecast& forecast : sequence.forecasts) {
    const size_t depth = forecast.path.size();
    if (depth < emitted.size() && emitted.first(depth) == forecast.path) {
      calibration_.Observe(view.sampling, static_cast<int64_t>(depth),
                           sequence.forecast_at + static_cast<int64_t>(depth),
                           forecast.candidates, emitted[depth]);
    }
  }
  sequence.forecasts.clear();
  sequence.forecast_at = static_cast<int64_t>(view.tokens.size());
}

// One row for every feature that is new. The root's comes with the next round.
absl::Status EagleDrafter::CatchUp(const SequenceView& view,
                                   Sequence& sequence) {
  if (view.features == nullptr || view.features->empty()) {
    return absl::OkStatus();
  }
  const FeatureRows& features = *view.features;
  if (sequence.end() < features.first_position ||
      sequence.last_output.empty()) {
    // Behind a gap the head starts again, as if the text began there.
    sequence.cache.Truncate(0);
    sequence.first_position = features.first_position;
  }
  const int64_t root = static_cast<int64_t>(view.tokens.size()) - 1;
  const int64_t end = std::min(features.end_position(), root);
  while (sequence.end() < end) {
    RETURN_IF_ERROR(
        Append(view, std::min(kRowsPerPass, end - sequence.end()), sequence));
  }
  return absl::OkStatus();
}

absl::Status EagleDrafter::Append(const SequenceView& view, int64_t rows,
                                  Sequence& sequence) {
  const int64_t hidden = model_.hidden_size();
  const int64_t first = sequence.end();
  RETURN_IF_ERROR(sequence.cache.Reserve(sequence.cache.length() + rows));
  std::vector<float> features(rows * hidden), outputs(rows * hidden);
  model_.Fuse(view.features->Rows(first, rows), features.data());
  std::vector<int32_t> chain(rows);
  std::iota(chain.begin(), chain.end(), kPrefixParent);
  model_.Run({{.cache = &sequence.cache,
               .tree = BuildRowTree(chain, sequence.cache.length()),
               .tokens = view.tokens.subspan(first + 1, rows),
               .features = features,
               .outputs = absl::MakeSpan(outputs)}});
  std::iota(chain.begin(), chain.end(), 0);
  sequence.cache.Keep(chain);
  sequence.last_output.assign(outputs.end() - hidden, outputs.end());
  return absl::OkStatus();
}

// All trees level by level, so that they share the passes.
absl::Status EagleDrafter::Grow(std::vector<Growth>& growths) {
  std::vector<Growth*> growing;
  for (Growth& growth : growths) {
    if (growth.tree.frontier().empty()) continue;
    const absl::Status followed = FollowGuess(growth);
    if (absl::IsResourceExhausted(followed)) continue;
    RETURN_IF_ERROR(followed);
    growing.push_back(&growth);
  }
  RETURN_IF_ERROR(ExpandFrontiers(growing));
  while (true) {
    growing.erase(std::remove_if(growing.begin(), growing.end(),
                                 [](const Growth* growth) {
                                   return growth->tree.frontier().empty();
                                 }),
                  growing.end());
    if (growing.empty()) return absl::OkStatus();
    for (const Growth* growth : growing) {
      if (growth->view.report) growth->view.report(growth->tree.Best());
    }
    RETURN_IF_ERROR(RunFrontiers(growing));
    RETURN_IF_ERROR(ExpandFrontiers(growing));
  }
}

absl::Status EagleDrafter::FollowGuess(Growth& growth) {
  const int64_t hidden = model_.hidden_size();
  for (TokenId token : growth.view.guess) {
    RETURN_IF_ERROR(growth.AddGuess(token, hidden));
    model_.Run({growth.LevelRows(hidden)});
  }
  return absl::OkStatus();
}

// A tree that finds no more room for its rows ends here.
absl::Status EagleDrafter::RunFrontiers(std::vector<Growth*>& growing) {
  const int64_t hidden = model_.hidden_size();
  std::vector<Growth*> with_room;
  std::vector<EagleModel::Rows> batch;
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

absl::Status EagleDrafter::ExpandFrontiers(absl::Span<Growth* const> growing) {
  std::vector<float> outputs;
  std::vector<NoiseCalibration::Belief> beliefs;
  std::vector<CandidateHead::Query> queries;
  for (const Growth* growth : growing) {
    const auto own = growth->FrontierOutputs(model_.hidden_size());
    outputs.insert(outputs.end(), own.begin(), own.end());
    for (int32_t index : growth->tree.frontier()) {
      const int64_t depth = growth->tree.node(index).depth;
      beliefs.push_back(calibration_.BeliefAt(growth->view.sampling, depth));
      queries.push_back({.sampling = beliefs.back().sampling,
                         .position = growth->root_position() + 1 + depth});
    }
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> candidates,
                   model_.Rank(outputs.data(), queries, shape_.width));
  size_t i = 0;
  for (Growth* growth : growing) {
    const size_t first = i;
    for (int32_t index : growth->tree.frontier()) {
      growth->Remember(index, candidates[i]);
      Foresee(queries[i].sampling, queries[i].position, beliefs[i].noise_scale,
              candidates[i]);
      ++i;
    }
    growth->tree.Expand(
        absl::MakeConstSpan(candidates).subspan(first, i - first));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Drafter>> NewEagleDrafter(
    const DrafterOptions& options) {
  OptionReader reader("eagle", options.options);
  const std::string folder = reader.RequiredText("model");
  const EagleDrafter::Options tree = {
      .tree = {.width = reader.Integer("width", {6, 1, 64}),
               .least_reach = reader.Number("least_reach", {0.1, 0.0, 1.0})},
      .noise_scale = ReadNoiseScale(reader),
      .drafts_ahead = reader.Flag("drafts_ahead", false)};
  HeadMachine machine = ReadHeadMachine(reader);
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(const HeadTarget target, OpenHeadTarget(options));
  absl::StatusOr<LoadedEagle> head = LoadEagle(folder, target, machine);
  if (!head.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("drafter eagle: option model: ", head.status().message()));
  }
  return std::make_unique<EagleDrafter>(*std::move(head), std::move(machine),
                                        tree);
}

}  // namespace espalier::drafter
