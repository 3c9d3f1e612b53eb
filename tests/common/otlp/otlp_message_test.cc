#include "common/otlp/otlp_message.h"

#include <string>

#include "absl/strings/escaping.h"
#include "common/base/version.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

// As OpenTelemetry's own package for Python (opentelemetry-proto 1.45.2) writes
// the same span.
TEST(OtlpMessageTest, HasTheBytesOfTheOfficialDefinitions) {
  constexpr char kOfficial[] =
      "0aa0010a150a130a0c736572766963652e6e616d6512030a01731286010a0a0a08"
      "657370616c69657212780a104bf92f3577b34da6a3ce929d0e0e4736120800f067aa"
      "0ba902b7220800000000000000ff2a016e30023901ca9a3b00000000410294357700"
      "0000004a100a0169120b18fdffffffffffffffff014a0e0a01641209210000000000"
      "00e03f4a080a017412030a01787a0d120943414e43454c4c45441802";
  const Span span = {.name = "n",
                     .context = {.trace_high = 0x4bf92f3577b34da6,
                                 .trace_low = 0xa3ce929d0e0e4736,
                                 .span = 0x00f067aa0ba902b7},
                     .parent = 0xff,
                     .serves = true,
                     .start = absl::FromUnixNanos(1'000'000'001),
                     .end = absl::FromUnixNanos(2'000'000'002),
                     .attributes = {{"i", -3}, {"d", 0.5}, {"t", "x"}},
                     .error = "CANCELLED"};
  auto message = ToOtlp("s", {span});
  auto& attributes = *message.mutable_resource_spans(0)
                          ->mutable_resource()
                          ->mutable_attributes();
  ASSERT_EQ(attributes.size(), 2);
  EXPECT_EQ(attributes[1].key(), "service.version");
  EXPECT_EQ(attributes[1].value().string_value(), Version());
  attributes.RemoveLast();
  EXPECT_EQ(absl::BytesToHexString(message.SerializeAsString()), kOfficial);
}

TEST(OtlpMessageTest, TheFirstSpanOfATraceHasNoParent) {
  const auto message = ToOtlp("s", {Span{.name = "n", .context = NewTrace()}});
  const auto& span = message.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(span.parent_span_id(), "");
  EXPECT_EQ(span.trace_id().size(), 16u);
  EXPECT_FALSE(span.has_status());
  EXPECT_EQ(span.kind(),
            opentelemetry::proto::trace::v1::Span::SPAN_KIND_INTERNAL);
}

}  // namespace
}  // namespace espalier
