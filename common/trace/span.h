#ifndef ESPALIER_COMMON_TRACE_SPAN_H_
#define ESPALIER_COMMON_TRACE_SPAN_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/obs/log.h"
#include "common/speculation/trace_context.h"

namespace espalier {

// A part of a request's time, as OpenTelemetry describes it. Like the log, it
// never has a prompt, an answer or a token.
struct Span {
  std::string name;
  TraceContext context;  // its own
  uint64_t parent = 0;   // span of the same trace; 0: it is the first
  bool serves = false;   // a request of another process
  absl::Time start = {};
  absl::Time end = {};
  LogFields attributes = {};
  std::string error = {};  // empty: none
};

// Where finished spans go.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Thread-safe; does not block. May drop the span.
  virtual void Record(Span span) = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TRACE_SPAN_H_
