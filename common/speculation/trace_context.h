#ifndef ESPALIER_COMMON_SPECULATION_TRACE_CONTEXT_H_
#define ESPALIER_COMMON_SPECULATION_TRACE_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace espalier {

// Name of the metadata and of the HTTP header.
inline constexpr char kTraceparent[] = "traceparent";

// A span, as those that it causes know it.
struct TraceContext {
  uint64_t trace_high = 0, trace_low = 0;  // of the trace; not both 0
  uint64_t span = 0;                       // 0: the trace has no span yet
  bool sampled = false;                    // whether spans are recorded

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Returns whether `value` is a traceparent of version 00 with ids that are not
// all zeros: "00-<32 hex>-<16 hex>-<2 hex>", lower case (W3C Trace Context,
// section 3.2).
bool IsTraceparent(absl::string_view value);

// Returns what a traceparent says; nullopt: it is not one.
std::optional<TraceContext> ParseTraceparent(absl::string_view value);
// REQUIRES: context.span is not 0.
std::string ToTraceparent(const TraceContext& context);

// Returns the context of a new trace that is sampled and has no span.
TraceContext NewTrace();
// Returns the context of a new span of the same trace.
TraceContext NewSpanOf(TraceContext trace);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_TRACE_CONTEXT_H_
