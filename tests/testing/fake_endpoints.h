// Peers for tests of the coordinator: they hold a copy of each sequence like
// real peers, refuse updates that do not fit it, and misbehave on command.
#ifndef ESPALIER_TESTS_TESTING_FAKE_ENDPOINTS_H_
#define ESPALIER_TESTS_TESTING_FAKE_ENDPOINTS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/stale_base.h"
#include "gtest/gtest.h"
#include "tests/testing/toy_target.h"

namespace espalier {

// Answers never come by themselves: see Release.
inline constexpr absl::Duration kHeld = absl::InfiniteDuration();

// In fakes, a segment's offset is its first position times the bytes of a row,
// plus a multiple of this.
inline constexpr uint64_t kFakeRingBytes = uint64_t{1} << 40;

// A peer's copies of the committed tokens.
class SequenceCopies {
 public:
  // Returns the tokens after the update; FAILED_PRECONDITION if it does not
  // fit.
  absl::StatusOr<std::vector<TokenId>> Apply(const SequenceUpdate& update) {
    std::vector<TokenId>& tokens = tokens_[update.sequence.number];
    const int64_t held = static_cast<int64_t>(tokens.size());
    if (update.base_length > held) {
      return StaleBaseError(held, update.base_length);
    }
    const auto base = absl::MakeSpan(tokens).first(update.base_length);
    if (PrefixHash(base) != update.prefix_hash) {
      return StaleBaseError(0, update.base_length);
    }
    tokens.resize(update.base_length);
    tokens.insert(tokens.end(), update.new_tokens.begin(),
                  update.new_tokens.end());
    EXPECT_FALSE(tokens.empty()) << "an update without any token";
    return tokens;
  }
  void Append(SequenceId id, const std::vector<TokenId>& new_tokens) {
    std::vector<TokenId>& tokens = tokens_[id.number];
    tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  }
  void Erase(SequenceId id) { tokens_.erase(id.number); }
  void Clear() { tokens_.clear(); }

 private:
  std::map<uint64_t, std::vector<TokenId>> tokens_;
};

// Delivers replies at once (inside the call), after a while, or on Release.
template <typename T>
class ReplyDesk {
 public:
  explicit ReplyDesk(Executor* executor) : executor_(executor) {}

  void Answer(absl::Duration delay, Done<T> done, absl::StatusOr<T> reply) {
    if (delay == kHeld) {
      held_.emplace_back(std::move(done), std::move(reply));
    } else if (delay == absl::ZeroDuration()) {
      std::move(done)(std::move(reply));
    } else {
      executor_->PostAt(
          executor_->Now() + delay,
          [done = std::move(done), reply = std::move(reply)]() mutable {
            std::move(done)(std::move(reply));
          });
    }
  }
  void Release() {
    for (auto& [done, reply] : std::exchange(held_, {})) {
      std::move(done)(std::move(reply));
    }
  }
  int num_held() const { return static_cast<int>(held_.size()); }

 private:
  Executor* executor_;
  std::vector<std::pair<Done<T>, absl::StatusOr<T>>> held_;
};

class FakeDraftEndpoint final : public DraftEndpoint {
 public:
  struct Behaviour {
    absl::Duration delay;
    absl::Status error;       // instead of a tree, nothing applied
    bool lose_state = false;  // first
    std::function<void(Proposal&)> corrupt = nullptr;
    // Makes the partial tree that is reported before the answer, after
    // `part_delay`, which does not exceed `delay`. Null: none is reported.
    std::function<void(Proposal&)> part = nullptr;
    absl::Duration part_delay;
  };
  // Returns a behaviour that answers with a part: the first nodes of the tree.
  static std::function<void(Proposal&)> FirstNodes(int64_t count) {
    return [count](Proposal& proposal) {
      const auto size =
          std::min<size_t>(count + 1, proposal.tree.tokens.size());
      proposal.tree.tokens.resize(size);
      proposal.tree.parents.resize(size);
      proposal.tree.log_probs.resize(size);
    };
  }
  // The tree for a text, within the budget.
  using Draft = std::function<TokenTree(const std::vector<TokenId>& text,
                                        const DraftBudget& budget)>;

  FakeDraftEndpoint(Executor* executor, Draft draft)
      : executor_(executor), desk_(executor), draft_(std::move(draft)) {}

  // Sets the behaviour of the next calls; by default they succeed.
  template <std::invocable Function>
  void Behave(Function behave) {
    behave_ = std::move(behave);
  }
  void Behave(Behaviour behaviour) {
    behave_ = [behaviour] { return behaviour; };
  }
  // How the next trees are made.
  void DraftBy(Draft draft) { draft_ = std::move(draft); }
  void Release() { desk_.Release(); }
  // Points of the toy target; received features are compared with it.
  FeatureContract wanted = {};
  bool supports_lookahead = false;
  uint64_t cpu_group = 0;
  uint64_t device_id = 0;
  RankNeed ranks = {};
  // Returns the end of the features that the sequence drafted for most recently
  // has read in a ring.
  int64_t last_stored_end() const { return last_stored_end_; }
  // Returns the last features of the sequence that was drafted for most
  // recently.
  const FeatureRows& last_features() const { return last_features_; }

  void Propose(ProposeRequest request, absl::Time, OnPartial on_partial,
               Done<Proposal> done) override {
    requests_.push_back(request);
    const uint64_t sequence = request.update.sequence.number;
    open_.insert(sequence);
    EXPECT_TRUE(request.lookahead.empty() || supports_lookahead);
    if (request.lookahead.empty()) {
      EXPECT_TRUE(unanswered_.insert(sequence).second)
          << "two unanswered requests for one sequence";
    }
    const Behaviour behaviour = behave_ ? behave_() : Behaviour{};
    if (behaviour.lose_state) {
      copies_.Clear();
      features_.clear();
      stored_ends_.clear();
    }
    absl::StatusOr<Proposal> reply = Reply(request, behaviour);
    if (reply.ok() && behaviour.part && on_partial) {
      Proposal part = *reply;
      behaviour.part(part);
      Tell(behaviour.part_delay, std::move(on_partial), std::move(part));
    }
    if (reply.ok() && behaviour.corrupt) behaviour.corrupt(*reply);
    desk_.Answer(
        behaviour.delay,
        [this, sequence, lookahead = !request.lookahead.empty(),
         done = std::move(done)](absl::StatusOr<Proposal> proposal) mutable {
          if (!lookahead) unanswered_.erase(sequence);
          std::move(done)(std::move(proposal));
        },
        std::move(reply));
  }
  void EndSequence(SequenceId sequence) override {
    EXPECT_EQ(open_.erase(sequence.number), 1u) << "ended twice, or unknown";
    copies_.Erase(sequence);
    features_.erase(sequence.number);
    stored_ends_.erase(sequence.number);
  }

  const std::vector<ProposeRequest>& requests() const { return requests_; }
  int num_open() const { return static_cast<int>(open_.size()); }

 private:
  absl::StatusOr<Proposal> Reply(const ProposeRequest& request,
                                 const Behaviour& behaviour) {
    if (!behaviour.error.ok()) return behaviour.error;
    auto text = copies_.Apply(request.update);
    if (!text.ok()) return text.status();
    TakeFeatures(request, *text);
    TakeStored(request);
    const int64_t committed_length = static_cast<int64_t>(text->size());
    text->insert(text->end(), request.lookahead.begin(),
                 request.lookahead.end());
    return Proposal{.round = request.update.round,
                    .committed_length = committed_length,
                    .tree = draft_(*text, request.budget)};
  }

  void Tell(absl::Duration delay, OnPartial on_partial, Proposal part) {
    if (delay == absl::ZeroDuration()) {
      on_partial(std::move(part));
      return;
    }
    executor_->PostAt(
        executor_->Now() + delay,
        [on_partial = std::move(on_partial), part = std::move(part)]() mutable {
          on_partial(std::move(part));
        });
  }

  void TakeFeatures(const ProposeRequest& request,
                    const std::vector<TokenId>& text) {
    FeatureRows& held = features_[request.update.sequence.number];
    held.CutFrom(request.update.base_length);
    held.Extend(request.features);
    if (!held.empty()) {
      EXPECT_LT(held.end_position(), static_cast<int64_t>(text.size()));
      EXPECT_EQ(held, ToyTarget::StatesOf(text, held.first_position,
                                          held.end_position(), wanted.taps));
    }
    last_features_ = held;
  }

  // Segments are known by their positions: see FakeVerifyEndpoint.
  void TakeStored(const ProposeRequest& request) {
    int64_t& end = stored_ends_[request.update.sequence.number];
    end = std::min(end, request.update.base_length);
    last_stored_end_ = end;
    if (request.stored.empty()) return;
    EXPECT_TRUE(request.features.empty());
    EXPECT_TRUE(request.stored.ring.ReachedFrom(device_id));
    EXPECT_TRUE(AreConsecutive(request.stored.segments));
    EXPECT_LT(request.stored.end_position(), request.update.committed_length());
    const auto row_bytes = static_cast<uint64_t>(2 * wanted.width());
    for (const RingSegment& segment : request.stored.segments) {
      EXPECT_EQ(segment.offset % kFakeRingBytes,
                segment.first_position * row_bytes);
    }
    end = last_stored_end_ = request.stored.end_position();
  }

  Executor* const executor_;
  ReplyDesk<Proposal> desk_;
  std::map<uint64_t, int64_t> stored_ends_;
  int64_t last_stored_end_ = 0;
  std::map<uint64_t, FeatureRows> features_;
  FeatureRows last_features_;
  Draft draft_;
  std::function<Behaviour()> behave_;
  SequenceCopies copies_;
  std::vector<ProposeRequest> requests_;
  std::set<uint64_t> open_;
  std::set<uint64_t> unanswered_;
};

// Verifies against the toy target: accepts the longest correct path.
class FakeVerifyEndpoint final : public VerifyEndpoint {
 public:
  struct Behaviour {
    absl::Duration delay;
    bool lose_state = false;  // first
    absl::Status error;       // nothing applied
    absl::Status lost_reply;  // applied, but this is what arrives
    std::function<void(VerifyResult&)> corrupt = nullptr;
  };

  FakeVerifyEndpoint(Executor* executor, ToyTarget target)
      : desk_(executor), target_(target) {}

  template <std::invocable Function>
  void Behave(Function behave) {
    behave_ = std::move(behave);
  }
  void Behave(Behaviour behaviour) {
    behave_ = [behaviour] { return behaviour; };
  }
  void Release() { desk_.Release(); }
  // The ring in which it stores wanted features; 0: it has none.
  uint64_t ring_id = 0;

  void Verify(VerifyRequest request, absl::Time,
              Done<VerifyResult> done) override {
    requests_.push_back(request);
    open_.insert(request.update.sequence.number);
    const Behaviour behaviour = behave_ ? behave_() : Behaviour{};
    if (behaviour.lose_state) {
      copies_.Clear();
      without_features_.clear();
      stored_ends_.clear();
      verify_results_.clear();
    }
    desk_.Answer(behaviour.delay, std::move(done), Reply(request, behaviour));
  }
  void EndSequence(SequenceId sequence) override {
    EXPECT_EQ(open_.erase(sequence.number), 1u) << "ended twice, or unknown";
    copies_.Erase(sequence);
    without_features_.erase(sequence.number);
    stored_ends_.erase(sequence.number);
    verify_results_.erase(sequence.number);
  }

  const std::vector<VerifyRequest>& requests() const { return requests_; }
  int num_open() const { return static_cast<int>(open_.size()); }

 private:
  absl::StatusOr<VerifyResult> Reply(const VerifyRequest& request,
                                     const Behaviour& behaviour) {
    if (!behaviour.error.ok()) return behaviour.error;
    absl::StatusOr<VerifyResult> verify_result = Decide(request);
    if (!verify_result.ok()) return verify_result;
    if (behaviour.corrupt) behaviour.corrupt(*verify_result);
    if (!behaviour.lost_reply.ok()) return behaviour.lost_reply;
    return verify_result;
  }

  absl::StatusOr<VerifyResult> Decide(const VerifyRequest& request) {
    const SequenceUpdate& update = request.update;
    VerifyResult& stored = verify_results_[update.sequence.number];
    if (stored.round == update.round) return stored;
    auto text = copies_.Apply(update);
    if (!text.ok()) return text.status();
    const absl::Status valid =
        request.tree.Validate({.max_nodes = 1000,
                               .max_depth = 1000,
                               .vocab_size = target_.vocab_size});
    EXPECT_TRUE(valid.ok()) << valid;
    EXPECT_EQ(request.tree.tokens[0], text->back());
    stored = Walk(request, *text);
    std::vector<TokenId> after = *std::move(text);
    after.insert(after.end(), stored.tokens.begin(), stored.tokens.end());
    const int64_t end = static_cast<int64_t>(after.size()) - 1;
    int64_t& without_features = without_features_[update.sequence.number];
    if (!request.features.taps.empty() && !request.features.deferred) {
      stored.features = ToyTarget::StatesOf(
          after, std::max(without_features, request.features.first_position),
          end, request.features.taps);
    }
    stored.stored = Store(request, end);
    if (!request.features.deferred) without_features = end;
    copies_.Append(update.sequence, stored.tokens);
    return stored;
  }

  VerifyResult Walk(const VerifyRequest& request,
                    std::vector<TokenId> text) const {
    const TokenTree& tree = request.tree;
    VerifyResult verify_result = {.round = request.update.round,
                                  .rule = "walk"};
    int32_t node = 0;
    while (true) {
      text.push_back(target_.Next(text));
      verify_result.tokens.push_back(text.back());
      int32_t child = node + 1;
      while (child < tree.num_nodes() && (tree.parents[child] != node ||
                                          tree.tokens[child] != text.back())) {
        ++child;
      }
      if (child == tree.num_nodes()) return verify_result;
      verify_result.path.push_back(child);
      node = child;
    }
  }

  StoredSegments Store(const VerifyRequest& request, int64_t end) {
    int64_t& begin = stored_ends_[request.update.sequence.number];
    StoredSegments stored;
    if (ring_id != 0 && !request.features.store.empty()) {
      stored.ring_id = ring_id;
      for (const std::vector<int32_t>& taps : request.features.store) {
        const int64_t row_bytes =
            2 * std::ssize(taps) * ToyTarget::kShape.hidden_size;
        stored.contracts.push_back(
            {{begin, end - begin, static_cast<uint64_t>(begin * row_bytes)}});
      }
    }
    begin = end;
    return stored;
  }

  ReplyDesk<VerifyResult> desk_;
  std::map<uint64_t, int64_t> stored_ends_;
  ToyTarget target_;
  std::function<Behaviour()> behave_;
  SequenceCopies copies_;
  // Positions whose features have been returned, or were not wanted.
  std::map<uint64_t, int64_t> without_features_;
  std::map<uint64_t, VerifyResult>
      verify_results_;  // the last of each sequence
  std::vector<VerifyRequest> requests_;
  std::set<uint64_t> open_;
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_FAKE_ENDPOINTS_H_
