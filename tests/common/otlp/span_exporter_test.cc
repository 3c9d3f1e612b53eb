#include "common/otlp/span_exporter.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/test_certificates.h"
#include "tests/testing/trace_collector.h"

namespace espalier {
namespace {

using testing::TraceCollector;

Span Named(const std::string& name) {
  return {.name = name, .context = NewSpanOf(NewTrace())};
}

double Count(prometheus::Registry& metrics, const std::string& outcome) {
  for (const auto& family : metrics.Collect()) {
    if (family.name != "espalier_trace_spans_total") continue;
    for (const auto& metric : family.metric) {
      if (metric.label[0].value == outcome) return metric.counter.value;
    }
  }
  return -1;
}

class SpanExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpanExporter> Start(const std::string& endpoint) {
    v1::TracingConfig config;
    config.set_endpoint(endpoint);
    auto exporter =
        SpanExporter::Start(config,
                            {.service = "tested",
                             .period = absl::Milliseconds(1),
                             .first_pause = absl::Milliseconds(1),
                             .longest_pause = absl::Milliseconds(20)},
                            metrics_);
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    return *std::move(exporter);
  }
  static auto Has(size_t count) {
    return [count](const std::vector<TraceCollector::Seen>& seen) {
      return seen.size() >= count;
    };
  }

  prometheus::Registry metrics_;
};

TEST_F(SpanExporterTest, TheCollectorGetsAllSpansInOrder) {
  TraceCollector collector;
  auto exporter = Start(collector.address());
  constexpr size_t kSpans = 2 * SpanExporter::kMaxBatch + 10;
  for (size_t i = 0; i < kSpans; ++i) {
    exporter->Record(Named(absl::StrCat("span", i)));
  }
  const auto seen = collector.Await(Has(kSpans));
  ASSERT_EQ(seen.size(), kSpans);
  for (size_t i = 0; i < kSpans; ++i) {
    EXPECT_EQ(seen[i].service, "tested");
    EXPECT_EQ(seen[i].span.name(), absl::StrCat("span", i));
  }
  exporter.reset();
  EXPECT_EQ(Count(metrics_, "sent"), kSpans);
  EXPECT_EQ(Count(metrics_, "dropped"), 0);
}

TEST_F(SpanExporterTest, SpansWaitForACollectorThatIsAway) {
  const std::string address =
      absl::StrCat("unix:/tmp/espalier_collector_", getpid());
  auto exporter = Start(address);
  exporter->Record(Named("early"));
  TraceCollector collector(address);
  EXPECT_EQ(collector.Await(Has(1)).size(), 1u);
}

TEST_F(SpanExporterTest, ABusyCollectorIsAskedAgain) {
  TraceCollector collector;
  collector.Answer({grpc::UNAVAILABLE, "busy"});
  auto exporter = Start(collector.address());
  exporter->Record(Named("a"));
  while (collector.num_calls() < 3) usleep(1000);
  collector.Answer(grpc::Status::OK);
  EXPECT_EQ(collector.Await(Has(1)).size(), 1u);
  exporter.reset();
  EXPECT_EQ(Count(metrics_, "sent"), 1);
}

TEST_F(SpanExporterTest, WhatTheCollectorRefusesIsCountedAndForgotten) {
  TraceCollector collector;
  collector.Answer({grpc::INVALID_ARGUMENT, "no"});
  auto exporter = Start(collector.address());
  exporter->Record(Named("a"));
  while (collector.num_calls() < 1) usleep(1000);
  collector.Answer(grpc::Status::OK, /*rejected_spans=*/1);
  exporter->Record(Named("b"));
  exporter->Record(Named("c"));
  exporter.reset();
  EXPECT_EQ(Count(metrics_, "sent") + Count(metrics_, "refused"), 3);
  EXPECT_GE(Count(metrics_, "refused"), 2);
}

TEST_F(SpanExporterTest, TheQueueIsBounded) {
  auto exporter = Start("unix:/tmp/espalier_nobody");
  constexpr size_t kMore = 100;
  // A batch may be with the thread.
  constexpr size_t kRoom = SpanExporter::kMaxQueued + SpanExporter::kMaxBatch;
  for (size_t i = 0; i < kRoom + kMore; ++i) exporter->Record(Named("n"));
  EXPECT_GE(Count(metrics_, "dropped"), kMore);
  exporter.reset();
  EXPECT_EQ(Count(metrics_, "sent"), 0);
}

TEST_F(SpanExporterTest, TheLastSpansAreSentAtTheEnd) {
  TraceCollector collector;
  v1::TracingConfig config;
  config.set_endpoint(collector.address());
  config.set_service_name("mine");
  auto exporter = SpanExporter::Start(
      config, {.service = "tested", .period = absl::Hours(1)}, metrics_);
  ASSERT_TRUE(exporter.ok());
  (*exporter)->Record(Named("last"));
  exporter->reset();
  const auto seen = collector.Await(Has(0));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].service, "mine");
}

TEST_F(SpanExporterTest, TheCollectorsCertificateMustHaveItsName) {
  const testing::TestAuthority authority("collectors");
  const std::string ca =
      absl::StrCat("/tmp/espalier_collector_ca_", getpid(), ".pem");
  testing::ReplaceFile(ca, authority.pem());
  const auto credentials = [&](const std::string& name) {
    const auto issued = authority.Issue({name});
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({issued.key, issued.certificate});
    return grpc::SslServerCredentials(options);
  };
  TraceCollector right("127.0.0.1:0", credentials("localhost"));
  TraceCollector wrong("127.0.0.1:0", credentials("elsewhere"));
  v1::TracingConfig config;
  config.mutable_tls()->set_ca_file(ca);
  for (TraceCollector* collector : {&wrong, &right}) {
    const std::string port =
        collector->address().substr(collector->address().find(':'));
    config.set_endpoint(absl::StrCat("localhost", port));
    auto exporter = SpanExporter::Start(
        config, {.service = "tested", .period = absl::Milliseconds(1)},
        metrics_);
    ASSERT_TRUE(exporter.ok()) << exporter.status();
    (*exporter)->Record(Named("secret"));
    if (collector == &right) collector->Await(Has(1));
  }
  // A call that the exporter's end cuts short is made again.
  EXPECT_GE(right.num_calls(), 1);
  EXPECT_EQ(wrong.num_calls(), 0);
  unlink(ca.c_str());
}

TEST(SpanExporterConfigTest, OffUnlessThereIsAnEndpoint) {
  prometheus::Registry metrics;
  const auto off = SpanExporter::Start({}, {}, metrics);
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(*off, nullptr);
  EXPECT_TRUE(metrics.Collect().empty());
}

TEST(SpanExporterConfigTest, ErrorsNameTheField) {
  prometheus::Registry metrics;
  v1::TracingConfig config;
  config.set_service_name("x");
  EXPECT_EQ(SpanExporter::Start(config, {}, metrics).status().message(),
            "server.tracing.endpoint: needed by the fields beside it");
  config.set_endpoint("nowhere");
  EXPECT_NE(SpanExporter::Start(config, {}, metrics)
                .status()
                .message()
                .find("server.tracing.endpoint: "),
            std::string::npos);
  config.set_endpoint("127.0.0.1:1");
  config.mutable_tls()->set_ca_file("/nowhere/ca");
  EXPECT_NE(SpanExporter::Start(config, {}, metrics)
                .status()
                .message()
                .find("server.tracing.tls: "),
            std::string::npos);
}

}  // namespace
}  // namespace espalier
