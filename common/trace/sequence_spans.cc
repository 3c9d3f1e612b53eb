#include "common/trace/sequence_spans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"

namespace espalier {

SequenceSpans::SequenceSpans(std::string name, LogFields attributes,
                             SpanSink* sink)
    : name_(std::move(name)), attributes_(std::move(attributes)), sink_(sink) {}

SequenceSpans::~SequenceSpans() {
  MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  for (auto& [sequence, open] : open_) Record(std::move(open), now);
}

bool SequenceSpans::Begin(const SequenceUpdate& update, absl::Time now) {
  MutexLock lock(&mutex_);
  if (open_.contains(update.sequence)) return true;
  const auto parent = ParseTraceparent(update.traceparent);
  if (!parent || !parent->sampled) return false;
  if (open_.size() == kMaxOpen) {
    const auto first = std::min_element(
        open_.begin(), open_.end(), [](const auto& a, const auto& b) {
          return a.second.span.start < b.second.span.start;
        });
    Record(std::move(first->second), now);
    open_.erase(first);
  }
  open_[update.sequence] = {.span = {.name = name_,
                                     .context = NewSpanOf(*parent),
                                     .parent = parent->span,
                                     .serves = true,
                                     .start = now,
                                     .attributes = attributes_}};
  return true;
}

void SequenceSpans::Add(SequenceId sequence, const std::vector<Sum>& sums) {
  MutexLock lock(&mutex_);
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  for (const Sum& sum : sums) {
    found->second.sums[std::string(sum.name)] += sum.value;
  }
}

void SequenceSpans::End(SequenceId sequence, absl::Time now) {
  MutexLock lock(&mutex_);
  const auto found = open_.find(sequence);
  if (found == open_.end()) return;
  Record(std::move(found->second), now);
  open_.erase(found);
}

void SequenceSpans::Record(Open open, absl::Time now) {
  open.span.end = now;
  for (const auto& [name, value] : open.sums) {
    open.span.attributes.push_back({name, value});
  }
  sink_->Record(std::move(open.span));
}

}  // namespace espalier
