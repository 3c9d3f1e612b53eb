#ifndef ESPALIER_COMMON_OTLP_OTLP_MESSAGE_H_
#define ESPALIER_COMMON_OTLP_OTLP_MESSAGE_H_

#include <string>

#include "absl/types/span.h"
#include "common/trace/span.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace espalier {

// Returns the message that gives a collector the spans of a service.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const std::string& service, absl::Span<const Span> spans);

}  // namespace espalier

#endif  // ESPALIER_COMMON_OTLP_OTLP_MESSAGE_H_
