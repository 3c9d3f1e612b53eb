#ifndef ESPALIER_COORDINATOR_STATUS_REPORT_H_
#define ESPALIER_COORDINATOR_STATUS_REPORT_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/coordinator.h"
#include "espalier/v1/inference.pb.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// What the status page shows, as JSON: counters since the start (the page makes
// rates of them), peers, requests, and one request's latest rounds as trees.
// Borrows all it is given; thread-safe.
class StatusReport {
 public:
  struct Options {
    const Coordinator* coordinator;
    const prometheus::Registry* metrics;  // that the coordinator counts in
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
    std::string model;
    const Tokenizer* tokenizer;  // null: no text of tokens is shown
  };
  explicit StatusReport(Options options);

  // `query` may say which request's rounds are wanted: "request=ID",
  // percent-encoded; otherwise those of the one that began last.
  std::string Json(absl::string_view query) const;

 private:
  const Options options_;
  const absl::Time start_;
};

// The page that shows it: one HTML document without outside assets.
extern const char kStatusPageHtml[];

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_STATUS_REPORT_H_
