// Endpoints that a test controls, and the hellos that they are served with.
#ifndef ESPALIER_TESTS_COMMON_RPC_FAKE_ENGINES_H_
#define ESPALIER_TESTS_COMMON_RPC_FAKE_ENGINES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/speculation/endpoints.h"

namespace espalier {

// Returns a deadline that no machine needs; only a failing test waits for it.
inline absl::Time Generous() { return absl::Now() + absl::Seconds(60); }

inline ModelIdentity TestModel() {
  return {.name = "tiny", .vocab_size = 1000, .tokenizer_fingerprint = 0xabc};
}

inline DrafterInfo TestDrafterInfo() {
  return {.name = "lookup",
          .type = "prompt_lookup",
          .model = TestModel(),
          .max_nodes = 2048,
          .max_depth = 64,
          .cpu_group = 12,
          .supports_lookahead = true};
}

inline VerifierInfo TestVerifierInfo() {
  VerifierInfo info;
  info.model = TestModel();
  info.epoch = 77;
  info.cpu_group = 13;
  info.max_context = 200'000;
  info.max_tree_nodes = 2048;
  info.rules = {"greedy", "walk"};
  info.distribution_rules = {"greedy"};
  info.eos_token_ids = {2, 3};
  info.device = "cpu";
  info.pass_costs = {{1, absl::Milliseconds(5)}, {8, absl::Milliseconds(7)}};
  info.memory = {.kv_tokens = 9000,
                 .kv_tokens_used = 70,
                 .kv_tokens_cached = 40,
                 .device_bytes = int64_t{80} << 30,
                 .device_bytes_used = int64_t{70} << 30};
  info.shape = {.num_layers = 12, .hidden_size = 64};
  return info;
}

// All numbers differ, as far as 16 bits allow.
inline FeatureRows TestFeatures(int64_t first, int64_t rows, int64_t width) {
  FeatureRows features = {.first_position = first, .width = width};
  for (int64_t i = 0; i < rows * width; ++i) {
    features.data.push_back(static_cast<uint16_t>(first * width + i));
  }
  return features;
}

inline SequenceUpdate TestUpdate(uint64_t sequence) {
  return {.sequence = {.coordinator_epoch = 9, .number = sequence},
          .round = 5,
          .base_length = 0,
          .prefix_hash = 11,
          .new_tokens = {1, 2, 3},
          .sampling = {
              .temperature = 0.5f, .top_k = 4, .top_p = 0.9f, .seed = 123}};
}

// Records calls. Answers each at once or, while held, on Release. Answers echo
// the request so that a mix-up is visible.
template <typename Interface, typename Request, typename Answer>
class FakeEngine : public Interface {
 public:
  void Hold() {
    MutexLock lock(&mutex_);
    held_ = true;
  }
  void Release() {
    std::vector<Call> calls;
    {
      MutexLock lock(&mutex_);
      held_ = false;
      calls.swap(waiting_);
    }
    for (Call& call : calls) Run(std::move(call));
  }
  // Answers every further call with `status`.
  void FailWith(absl::Status status) {
    MutexLock lock(&mutex_);
    failure_ = std::move(status);
  }

  bool AwaitHeld(size_t count) {
    auto reached = [&] {
      mutex_.AssertHeld();
      return waiting_.size() >= count;
    };
    MutexLock lock(&mutex_);
    return mutex_.AwaitUntil(reached, Generous());
  }
  bool AwaitEnded(size_t count) {
    auto reached = [&] {
      mutex_.AssertHeld();
      return ended_.size() >= count;
    };
    MutexLock lock(&mutex_);
    return mutex_.AwaitUntil(reached, Generous());
  }

  std::vector<SequenceId> ended() {
    MutexLock lock(&mutex_);
    return ended_;
  }
  Request last() {
    MutexLock lock(&mutex_);
    return last_;
  }
  absl::Time last_deadline() {
    MutexLock lock(&mutex_);
    return last_deadline_;
  }

  void EndSequence(SequenceId sequence) override {
    MutexLock lock(&mutex_);
    ended_.push_back(sequence);
  }

 protected:
  void Take(Request request, absl::Time deadline, Done<Answer> done) {
    Call call{std::move(request), std::move(done)};
    {
      MutexLock lock(&mutex_);
      last_ = call.request;
      last_deadline_ = deadline;
      if (held_) {
        waiting_.push_back(std::move(call));
        return;
      }
    }
    Run(std::move(call));
  }
  virtual Answer Make(const Request& request) = 0;

 private:
  struct Call {
    Request request;
    Done<Answer> done;
  };

  void Run(Call call) {
    absl::Status failure;
    {
      MutexLock lock(&mutex_);
      failure = failure_;
    }
    if (failure.ok()) {
      std::move(call.done)(Make(call.request));
    } else {
      std::move(call.done)(failure);
    }
  }

  Mutex mutex_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<SequenceId> ended_ ABSL_GUARDED_BY(mutex_);
  Request last_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_deadline_ ABSL_GUARDED_BY(mutex_);
};

class FakeDraftEngine final
    : public FakeEngine<DraftEndpoint, ProposeRequest, Proposal> {
 public:
  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override {
    for (int64_t nodes : parts_) {
      ProposeRequest part = request;
      part.budget.max_nodes = nodes;
      on_partial(Make(part));
    }
    Take(std::move(request), deadline, std::move(done));
  }

  // Sends partial trees of these sizes (nodes) before every answer, also while
  // it is held. Call it before the first request.
  void TellBefore(std::vector<int64_t> parts) { parts_ = std::move(parts); }

 private:
  // Returns a chain as long as the budget, of tokens that tell the sequence's
  // number.
  Proposal Make(const ProposeRequest& request) override {
    Proposal proposal{.round = request.update.round,
                      .committed_length = request.update.committed_length(),
                      .compute_time = absl::Microseconds(42)};
    proposal.tree = TokenTree::RootOnly(request.update.new_tokens.back());
    const auto token =
        static_cast<TokenId>(request.update.sequence.number % 1000);
    for (int32_t i = 0; i < request.budget.max_nodes; ++i) {
      proposal.tree.Add(i, token, static_cast<float>(-i - 1));
    }
    return proposal;
  }

  std::vector<int64_t> parts_;
};

class FakeVerifyEngine final
    : public FakeEngine<VerifyEndpoint, VerifyRequest, VerifyResult> {
 public:
  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) override {
    Take(std::move(request), deadline, std::move(done));
  }

 private:
  // Accepts every node; the bonus token is the sequence's number. Features: one
  // row for every committed token that the sender lacks.
  VerifyResult Make(const VerifyRequest& request) override {
    VerifyResult verify_result;
    verify_result.round = request.update.round;
    verify_result.rule = request.rule;
    if (!request.features.taps.empty()) {
      const int64_t first = request.features.first_position;
      const int64_t width =
          64 * static_cast<int64_t>(request.features.taps.size());
      verify_result.features =
          TestFeatures(first, request.update.committed_length() - first, width);
    }
    verify_result.near_ties = 1;
    verify_result.timings = {.queue = absl::Microseconds(1),
                             .prefill = absl::Microseconds(2),
                             .forward = absl::Microseconds(3),
                             .accept = absl::Microseconds(4),
                             .commit = absl::Microseconds(5)};
    for (int32_t i = 1; i < request.tree.num_nodes(); ++i) {
      verify_result.path.push_back(i);
      verify_result.tokens.push_back(
          request.tree.tokens[static_cast<size_t>(i)]);
    }
    verify_result.tokens.push_back(
        static_cast<TokenId>(request.update.sequence.number));
    return verify_result;
  }
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_RPC_FAKE_ENGINES_H_
