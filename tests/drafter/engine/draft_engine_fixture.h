#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/speculation/prefix_hash.h"
#include "drafter/engine/draft_engine.h"
#include "drafter/engine/host_feature_store.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::drafter {

using Tokens = std::vector<TokenId>;
using Answer = absl::StatusOr<Proposal>;

// Drafts a chain of sevens of the budget's depth, and records its calls.
class RecordingDrafter final : public Drafter {
 public:
  struct Notes {
    std::vector<std::vector<Tokens>> batches;
    std::vector<FeatureRows> features;  // of every view
    std::vector<uint64_t> forgotten;
    absl::Status error;
    int64_t trees_left_out = 0;
    int64_t reports = 0;  // of trees with 0, 1, ... nodes, before the answer
    absl::AnyInvocable<void()> while_drafting = [] {};
    // Before each of so many levels.
    absl::AnyInvocable<void(int)> level;
    int num_levels = 0;
  };

  explicit RecordingDrafter(Notes& notes) : notes_(notes) {}

  FeatureStore* features() override { return &features_; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    notes_.while_drafting();
    for (int level = 0; level < notes_.num_levels; ++level) {
      notes_.level(level);
      for (const SequenceView& view : batch) view.level_done();
    }
    std::vector<TokenTree> trees;
    std::vector<Tokens> seen;
    for (const SequenceView& view : batch) {
      seen.emplace_back(view.tokens.begin(), view.tokens.end());
      const auto rows = features_.Rows(view.id, view.features);
      notes_.features.push_back({.first_position = view.features.begin,
                                 .width = features_.contract().width(),
                                 .data = {rows.begin(), rows.end()}});
      seen.back().insert(seen.back().end(), view.lookahead.begin(),
                         view.lookahead.end());
      TokenTree tree = TokenTree::RootOnly(view.root());
      const int64_t nodes =
          std::min(view.budget.max_nodes, view.budget.max_depth);
      for (int32_t i = 0; i < nodes; ++i) {
        if (i < notes_.reports && view.report) view.report(tree);
        tree.Add(i, 7, 0);
      }
      trees.push_back(std::move(tree));
    }
    notes_.batches.push_back(std::move(seen));
    if (!notes_.error.ok()) return notes_.error;
    trees.resize(trees.size() - notes_.trees_left_out);
    return trees;
  }

  void Forget(SequenceId id) override { notes_.forgotten.push_back(id.number); }

 private:
  Notes& notes_;
  HostFeatureStore features_{{.taps = {1, 3}, .hidden_size = 1}};
};

class DraftEngineTest : public ::testing::Test {
 protected:
  DraftEngineTest() {
    auto executor = std::make_unique<FakeExecutor>();
    executor_ = executor.get();
    engine_ = std::make_unique<DraftEngine>(
        DraftEngine::Options{
            .name = "echo",
            .vocab_size = 10,
            .max_nodes = 6,
            .max_depth = 4,
            .supports_lookahead = true,
            .store = {.max_sequences = 3,
                      .max_tokens = 20,
                      .max_idle = absl::Seconds(60)},
            .on_device_lost = [this](const absl::Status&) { ++losses_; }},
        std::make_unique<RecordingDrafter>(notes_), std::move(executor),
        metrics_);
  }

  static ProposeRequest Request(uint64_t number, const Tokens& base,
                                const Tokens& added) {
    return {.update = {.sequence = {1, number},
                       .round = 40 + number,
                       .base_length = static_cast<int64_t>(base.size()),
                       .prefix_hash = PrefixHash(base),
                       .new_tokens = added},
            .budget = {.max_nodes = 3, .max_depth = 3}};
  }

  static ProposeRequest Lookahead(uint64_t number, const Tokens& base,
                                  const Tokens& lookahead) {
    ProposeRequest request = Request(number, base, {});
    request.lookahead = lookahead;
    return request;
  }

  // Queues a request; the answer is stored in the returned object.
  std::shared_ptr<std::optional<Answer>> Propose(
      ProposeRequest request, absl::Time deadline = absl::InfiniteFuture()) {
    auto answer = std::make_shared<std::optional<Answer>>();
    engine_->Propose(
        std::move(request), deadline,
        [this, answer](Proposal part) {
          EXPECT_FALSE(answer->has_value()) << "a part after the answer";
          parts_.push_back(std::move(part));
        },
        [answer](Answer given) {
          EXPECT_FALSE(answer->has_value()) << "answered twice";
          *answer = std::move(given);
        });
    return answer;
  }

  Answer ProposeNow(ProposeRequest request) {
    auto answer = Propose(std::move(request));
    executor_->RunUntilIdle();
    EXPECT_TRUE(answer->has_value());
    return **answer;
  }

  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  DrafterMetrics metrics_ = MakeDrafterMetrics(*registry_, "echo");
  RecordingDrafter::Notes notes_;
  std::vector<Proposal> parts_;  // of all requests
  FakeExecutor* executor_ = nullptr;
  int losses_ = 0;  // of the device
  std::unique_ptr<DraftEngine> engine_;
};

}  // namespace espalier::drafter
