#ifndef ESPALIER_COORDINATOR_API_STATUS_REPORT_H_
#define ESPALIER_COORDINATOR_API_STATUS_REPORT_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/access_token.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/api/status_history.h"
#include "coordinator/coordinator.h"
#include "espalier/v1/inference.pb.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// Data of the status page, as JSON: counters since the start (the page computes
// rates), their history, latencies, errors, peers, requests, and one request's
// latest rounds as trees. Borrows all it is given; thread-safe.
class StatusReport {
 public:
  struct Options {
    const Coordinator* coordinator;
    const prometheus::Registry* metrics;  // of the coordinator
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
    std::string model;
    AccessToken text_key;  // needed to see text; empty: text is never shown
    const Tokenizer* tokenizer;
  };
  explicit StatusReport(Options options);

  // Adds the present to the history. Its owner calls it every kSampleEvery.
  void Sample();
  static constexpr absl::Duration kSampleEvery = absl::Seconds(5);

  // `query` may select the request whose rounds are wanted, "request=NUMBER"
  // (otherwise the one that began last), and authorize the display of text,
  // "key=SECRET". Percent-encoded.
  std::string Json(absl::string_view query) const;

 private:
  const Options options_;
  const absl::Time start_;
  StatusHistory history_;
};

// The page that shows the report: one HTML document without external assets.
extern const char kStatusPageHtml[];

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_STATUS_REPORT_H_
