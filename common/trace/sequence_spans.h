#ifndef ESPALIER_COMMON_TRACE_SEQUENCE_SPANS_H_
#define ESPALIER_COMMON_TRACE_SEQUENCE_SPANS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/speculation/messages.h"
#include "common/trace/span.h"

namespace espalier {

// One span for each sequence that a peer works on, with sums over its rounds.
// It begins with the update that opens a sequence whose traceparent is sampled,
// and ends with the sequence. Thread-safe.
class SequenceSpans {
 public:
  // Sequences at a time. For another one, the span of the oldest ends.
  static constexpr size_t kMaxOpen = 4096;

  // `sink` must outlive this object. `attributes` are those of every span.
  SequenceSpans(std::string name, LogFields attributes, SpanSink* sink);
  // Ends all spans.
  ~SequenceSpans();

  // Returns whether the sequence has a span, which begins now if the update
  // opens the sequence.
  bool Begin(const SequenceUpdate& update, absl::Time now);

  struct Sum {
    absl::string_view name;  // of the attribute
    double value;
  };
  // Adds to the attributes of a sequence; ignored if it has no span.
  void Add(SequenceId sequence, const std::vector<Sum>& sums);

  // Ignored if it has no span.
  void End(SequenceId sequence, absl::Time now);

 private:
  struct Open {
    Span span;
    std::map<std::string, double, std::less<>> sums = {};
  };
  void Record(Open open, absl::Time now);

  const std::string name_;
  const LogFields attributes_;
  SpanSink* const sink_;
  Mutex mutex_;
  absl::flat_hash_map<SequenceId, Open> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TRACE_SEQUENCE_SPANS_H_
