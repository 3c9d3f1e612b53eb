#ifndef ESPALIER_COORDINATOR_ROUNDS_REQUEST_TRACE_H_
#define ESPALIER_COORDINATOR_ROUNDS_REQUEST_TRACE_H_

#include <optional>
#include <string>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/obs/log.h"
#include "common/trace/span.h"
#include "coordinator/rounds/decode_round.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// Which requests have spans.
struct Tracing {
  SpanSink* sink = nullptr;  // null: none
  double requests = 1;       // share of those without a traceparent
  double rounds = 0;         // of the traced, that of those with every round
};

// The spans of one output: "generate", with its stages "queue", "prompt" (until
// the first tokens) and "decode" as children, and each "round" if wanted. They
// are recorded when the output ends. Lives on the executor.
class RequestTrace {
 public:
  struct Options {
    SpanSink* sink;
    TraceContext parent;  // span 0: the trace begins here
    bool rounds = false;
  };
  RequestTrace(Options options, absl::Time arrival);

  // The span as peers know it.
  std::string traceparent() const { return ToTraceparent(context_); }

  void BeginRound(absl::Time now) { round_began_ = now; }
  void EndRound(const DecodeRound::Result& result, const StepInfo& step,
                absl::Time now);
  void Finish(const absl::Status& status, const GenerationReport& report,
              LogFields attributes, absl::Time now);

 private:
  void Record(const char* name, absl::Time start, absl::Time end,
              LogFields attributes = {}) const;

  const Options options_;
  const TraceContext context_;
  const absl::Time arrival_;
  absl::Time round_began_;
};

// Chooses the requests that have spans. Lives on the executor.
class RequestTracer {
 public:
  explicit RequestTracer(const Tracing& tracing) : tracing_(tracing) {}

  // `traceparent`: of the client, whose choice holds; or empty. nullopt: the
  // request has no spans.
  std::optional<RequestTrace::Options> Choose(const std::string& traceparent);

 private:
  const Tracing tracing_;
  absl::BitGen random_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_REQUEST_TRACE_H_
