#ifndef ESPALIER_COMMON_SPEC_TRACE_CONTEXT_H_
#define ESPALIER_COMMON_SPEC_TRACE_CONTEXT_H_

#include "absl/strings/string_view.h"

namespace espalier {

// Name of the metadata and of the HTTP header.
inline constexpr char kTraceparent[] = "traceparent";

// Returns whether `value` is a traceparent of version 00 with ids that are not
// all zeros: "00-<32 hex>-<16 hex>-<2 hex>", lower case (W3C Trace Context,
// section 3.2).
bool IsTraceparent(absl::string_view value);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_TRACE_CONTEXT_H_
