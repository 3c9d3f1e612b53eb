#include "common/otlp/otlp_message.h"

#include <cstdint>
#include <variant>

#include "common/base/version.h"

namespace espalier {
namespace {

namespace otel = opentelemetry::proto;

std::string BigEndian(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = bytes.size(); i-- > 0; number >>= 8) {
    bytes[i] = static_cast<char>(number & 0xff);
  }
  return bytes;
}

struct SetValue {
  otel::common::v1::AnyValue& out;

  void operator()(int64_t value) const { out.set_int_value(value); }
  void operator()(double value) const { out.set_double_value(value); }
  void operator()(const std::string& value) const {
    out.set_string_value(value);
  }
};

void SetAttribute(const LogField& field, otel::common::v1::KeyValue& out) {
  out.set_key(field.name);
  std::visit(SetValue{*out.mutable_value()}, field.value);
}

void ToOtlp(const Span& span, otel::trace::v1::Span& out) {
  out.set_trace_id(BigEndian(span.context.trace_high) +
                   BigEndian(span.context.trace_low));
  out.set_span_id(BigEndian(span.context.span));
  if (span.parent != 0) out.set_parent_span_id(BigEndian(span.parent));
  out.set_name(span.name);
  out.set_kind(span.serves ? otel::trace::v1::Span::SPAN_KIND_SERVER
                           : otel::trace::v1::Span::SPAN_KIND_INTERNAL);
  out.set_start_time_unix_nano(absl::ToUnixNanos(span.start));
  out.set_end_time_unix_nano(absl::ToUnixNanos(span.end));
  for (const LogField& field : span.attributes) {
    SetAttribute(field, *out.add_attributes());
  }
  if (span.error.empty()) return;
  out.mutable_status()->set_code(otel::trace::v1::Status::STATUS_CODE_ERROR);
  out.mutable_status()->set_message(span.error);
}

}  // namespace

otel::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const std::string& service, absl::Span<const Span> spans) {
  otel::collector::trace::v1::ExportTraceServiceRequest request;
  otel::trace::v1::ResourceSpans& resource = *request.add_resource_spans();
  SetAttribute({"service.name", service},
               *resource.mutable_resource()->add_attributes());
  SetAttribute({"service.version", Version()},
               *resource.mutable_resource()->add_attributes());
  otel::trace::v1::ScopeSpans& scope = *resource.add_scope_spans();
  scope.mutable_scope()->set_name("espalier");
  for (const Span& span : spans) ToOtlp(span, *scope.add_spans());
  return request;
}

}  // namespace espalier
