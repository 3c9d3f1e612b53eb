// Spans of real processes, as a collector gets them.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process.h"
#include "tests/testing/trace_collector.h"

namespace espalier::testing {
namespace {

using Seen = TraceCollector::Seen;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kClientsSpan[] = "00f067aa0ba902b7";

std::string AddressOf(const Cluster& cluster, const std::string& kind) {
  for (absl::string_view line :
       absl::StrSplit(ReadFile(cluster.Path("coordinator.addresses")), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == kind) return words[1];
  }
  ADD_FAILURE() << "no address of " << kind;
  return "";
}

// Waits for the spans that have no children, of all processes, and the first.
std::map<std::string, Seen> AwaitSpans(TraceCollector& collector,
                                       const std::set<std::string>& names) {
  std::map<std::string, Seen> found;
  collector.Await([&](const std::vector<Seen>& all) {
    for (const Seen& seen : all) found[seen.span.name()] = seen;
    return std::all_of(names.begin(), names.end(),
                       [&](const auto& name) { return found.contains(name); });
  });
  return found;
}

class TracesTest : public ::testing::Test {
 protected:
  Cluster::Options Traced(std::vector<DrafterSpec> drafters) {
    const std::string set =
        absl::StrCat("server.tracing.endpoint=", collector_.address());
    return {.model = CharModelFolder(),
            .drafters = std::move(drafters),
            .coordinator_sets = {set, "http_listen=127.0.0.1:0",
                                 kWaitForDrafters, "server.tracing.rounds=1"},
            .verifier_sets = {set},
            .drafter_sets = {set}};
  }

  TraceCollector collector_;
};

TEST_F(TracesTest, OneTraceFromTheHttpClientToEveryPeer) {
  Cluster cluster(
      Traced({{.name = "lookup", .type = "prompt_lookup"},
              {.name = "near", .type = "suffix", .in_coordinator = true}}));
  cluster.AwaitReady();
  const Finished answer = RunToEnd(
      {"/usr/bin/curl", "-fsS", "-H",
       absl::StrCat("traceparent: 00-", kTrace, "-", kClientsSpan, "-01"), "-d",
       R"({"prompt": "First Citizen: First Citizen:", "max_tokens": 40,
           "espalier": {"strategy": "union"}})",
       absl::StrCat("http://", AddressOf(cluster, "http"), "/v1/completions")},
      cluster.Path("answer"));
  ASSERT_EQ(answer.status, 0) << answer.output;
  const std::set<std::string> names = {"generate", "queue",  "prompt", "decode",
                                       "round",    "verify", "draft"};
  const auto found = AwaitSpans(collector_, names);
  for (const std::string& name : names) {
    ASSERT_TRUE(found.contains(name)) << name;
  }
  const std::string request = found.at("generate").span.span_id();
  EXPECT_EQ(absl::BytesToHexString(found.at("generate").span.parent_span_id()),
            kClientsSpan);
  std::set<std::string> services;
  std::map<std::string, int> draft_spans;
  for (const Seen& seen : collector_.Await([&](const auto& all) {
         return std::count_if(all.begin(), all.end(), [](const Seen& s) {
                  return s.span.name() == "draft";
                }) == 2;
       })) {
    EXPECT_EQ(absl::BytesToHexString(seen.span.trace_id()), kTrace);
    services.insert(seen.service);
    if (seen.span.name() != "generate") {
      EXPECT_EQ(seen.span.parent_span_id(), request) << seen.span.name();
    }
    if (seen.span.name() == "draft") ++draft_spans[seen.service];
    EXPECT_LE(seen.span.start_time_unix_nano(), seen.span.end_time_unix_nano());
  }
  EXPECT_EQ(services,
            (std::set<std::string>{"espalier-coordinator", "espalier-verifier",
                                   "espalier-drafter"}));
  EXPECT_EQ(draft_spans["espalier-coordinator"], 1);
  EXPECT_EQ(draft_spans["espalier-drafter"], 1);
}

// A gRPC client's traceparent is metadata; a text does not depend on tracing.
TEST_F(TracesTest, ACollectorThatIsAwayChangesNothing) {
  Cluster::Options options = Traced(LookupAndBigram());
  for (auto* sets : {&options.coordinator_sets, &options.verifier_sets,
                     &options.drafter_sets}) {
    (*sets)[0] = "server.tracing.endpoint=unix:/tmp/espalier_nobody";
  }
  Cluster traced(options);
  Cluster plain({.model = CharModelFolder(), .drafters = LookupAndBigram()});
  traced.AwaitReady();
  plain.AwaitReady();
  const v1::GenerateRequest request = CharRequest(1, 3);
  const Generated with = Generate(traced.stub(), request);
  const Generated without = Generate(plain.stub(), request);
  ASSERT_TRUE(with.status.ok()) << with.status.error_message();
  EXPECT_EQ(with.text, without.text);
  traced.AwaitMetric("coordinator",
                     "espalier_trace_spans_total{outcome=\"sent\"} 0");
}

TEST(TracesConfigTest, SharesAreChecked) {
  const ScratchFolder scratch;
  const std::string config = scratch / "c.textproto";
  WriteFile(config,
            absl::StrCat("model: \"", CharModelFolder(),
                         "\" verifier: \"unix:/nowhere\" server { listen: "
                         "\"unix:",
                         scratch / "c.sock",
                         "\" tracing { endpoint: \"unix:/x\" rounds: 2 } }"));
  const Finished finished =
      RunToEnd({ESPALIER_BIN_DIR "/espalier-coordinator", "--config", config},
               scratch / "out");
  EXPECT_EQ(finished.status, 2) << finished.output;
  EXPECT_NE(finished.output.find("server.tracing.rounds: 2 is not in 0 .. 1"),
            std::string::npos)
      << finished.output;
}

}  // namespace
}  // namespace espalier::testing
