#include "common/trace/traced_endpoints.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/trace/sequence_spans.h"

namespace espalier {
namespace {

double Ms(absl::Duration time) { return absl::ToDoubleMilliseconds(time); }

class TracedVerifier final : public VerifyEndpoint {
 public:
  TracedVerifier(VerifyEndpoint& endpoint, SpanSink* sink)
      : endpoint_(endpoint),
        spans_(std::make_shared<SequenceSpans>("verify", LogFields(), sink)) {}

  void Verify(VerifyRequest request, absl::Time deadline,
              Done<VerifyResult> done) override {
    if (spans_->Begin(request.update, absl::Now())) {
      done = [spans = spans_, sequence = request.update.sequence,
              done = std::move(done)](
                 absl::StatusOr<VerifyResult> result) mutable {
        Count(*spans, sequence, result);
        std::move(done)(std::move(result));
      };
    }
    endpoint_.Verify(std::move(request), deadline, std::move(done));
  }

  void EndSequence(SequenceId sequence) override {
    endpoint_.EndSequence(sequence);
    spans_->End(sequence, absl::Now());
  }

 private:
  static void Count(SequenceSpans& spans, SequenceId sequence,
                    const absl::StatusOr<VerifyResult>& result) {
    if (!result.ok()) {
      spans.Add(sequence, {{"errors", 1}});
      return;
    }
    const VerifyTimings& timings = result->timings;
    spans.Add(sequence,
              {{"rounds", 1},
               {"tokens", static_cast<double>(result->tokens.size())},
               {"cached_tokens", static_cast<double>(result->cached_tokens)},
               {"queue_ms", Ms(timings.queue)},
               {"room_ms", Ms(timings.room)},
               {"measuring_ms", Ms(timings.measuring)},
               {"prefill_ms", Ms(timings.prefill)},
               {"forward_ms", Ms(timings.forward)},
               {"accept_ms", Ms(timings.accept)},
               {"commit_ms", Ms(timings.commit)}});
  }

  VerifyEndpoint& endpoint_;
  const std::shared_ptr<SequenceSpans> spans_;  // late answers have it too
};

class TracedDrafter final : public DraftEndpoint {
 public:
  TracedDrafter(DraftEndpoint& endpoint, std::string name, SpanSink* sink)
      : endpoint_(endpoint),
        spans_(std::make_shared<SequenceSpans>(
            "draft", LogFields{{"drafter", std::move(name)}}, sink)) {}

  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override {
    if (spans_->Begin(request.update, absl::Now())) {
      done = [spans = spans_, sequence = request.update.sequence,
              done =
                  std::move(done)](absl::StatusOr<Proposal> proposal) mutable {
        Count(*spans, sequence, proposal);
        std::move(done)(std::move(proposal));
      };
    }
    endpoint_.Propose(std::move(request), deadline, std::move(on_partial),
                      std::move(done));
  }

  void EndSequence(SequenceId sequence) override {
    endpoint_.EndSequence(sequence);
    spans_->End(sequence, absl::Now());
  }

 private:
  static void Count(SequenceSpans& spans, SequenceId sequence,
                    const absl::StatusOr<Proposal>& proposal) {
    if (!proposal.ok()) {
      spans.Add(sequence, {{"errors", 1}});
      return;
    }
    spans.Add(sequence,
              {{"rounds", 1},
               {"nodes", static_cast<double>(proposal->tree.num_nodes() - 1)},
               {"compute_ms", Ms(proposal->compute_time)}});
  }

  DraftEndpoint& endpoint_;
  const std::shared_ptr<SequenceSpans> spans_;  // late answers have it too
};

}  // namespace

std::unique_ptr<VerifyEndpoint> TraceVerifier(VerifyEndpoint& endpoint,
                                              SpanSink* sink) {
  if (sink == nullptr) return nullptr;
  return std::make_unique<TracedVerifier>(endpoint, sink);
}

std::unique_ptr<DraftEndpoint> TraceDrafter(DraftEndpoint& endpoint,
                                            std::string name, SpanSink* sink) {
  if (sink == nullptr) return nullptr;
  return std::make_unique<TracedDrafter>(endpoint, std::move(name), sink);
}

}  // namespace espalier
