#ifndef ESPALIER_COMMON_TRACE_TRACED_ENDPOINTS_H_
#define ESPALIER_COMMON_TRACE_TRACED_ENDPOINTS_H_

#include <memory>
#include <string>

#include "common/speculation/endpoints.h"
#include "common/trace/span.h"

namespace espalier {

// Return an endpoint that passes all to `endpoint`, and gives `sink` a span
// "verify" or "draft" for each sequence with a sampled traceparent. Null if
// `sink` is null. Both must outlive it, and `sink` the endpoint's answers too.
std::unique_ptr<VerifyEndpoint> TraceVerifier(VerifyEndpoint& endpoint,
                                              SpanSink* sink);
// `name`: the drafter's, an attribute of its spans.
std::unique_ptr<DraftEndpoint> TraceDrafter(DraftEndpoint& endpoint,
                                            std::string name, SpanSink* sink);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TRACE_TRACED_ENDPOINTS_H_
