#ifndef ESPALIER_COORDINATOR_API_STATUS_REPORT_H_
#define ESPALIER_COORDINATOR_API_STATUS_REPORT_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/access_token.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/api/status_history.h"
#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Data of the status page, as JSON: counters since the start (the page computes
// rates), their history, latencies, errors, peers, and with the key requests
// and one request's latest rounds as trees. How many tokens a round has
// accepted says much about its text, so that needs the key as well as the text
// itself. Borrows all it is given; thread-safe.
class StatusReport {
 public:
  struct Options {
    const Coordinator* coordinator;
    std::function<void(v1::GetServerInfoResponse&)> describe_peers;
    std::string model;
    // Needed to see requests, their rounds and text; empty: they are never
    // shown.
    AccessToken text_key;
    const Tokenizer* tokenizer;
  };
  explicit StatusReport(Options options);

  // Adds the present to the history. Its owner calls it every kSampleEvery.
  void Sample();
  static constexpr absl::Duration kSampleEvery = absl::Seconds(5);

  // `query` may select the request whose rounds are wanted, "request=NUMBER"
  // (otherwise the one that began last), and authorize the display of requests,
  // "key=SECRET". Percent-encoded.
  std::string Json(absl::string_view query) const;

  // JSON of the rounds of a request, as in the report, for the client that
  // knows its request_id; nullopt: it is not among the latest.
  std::optional<std::string> OwnRounds(const std::string& request_id) const;

  // Tells the page where the HTTP API is, as HOST:PORT. Empty, the default:
  // there is none.
  void SetHttpAddress(std::string address, bool has_tls);
  // Lets the page warn of listeners that everybody may use, one line each.
  void AddOpenListeners(absl::Span<const std::string> lines);

 private:
  const Options options_;
  const absl::Time start_;
  StatusHistory history_;
  mutable Mutex mutex_;
  std::string http_address_ ABSL_GUARDED_BY(mutex_);
  bool http_has_tls_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> open_listeners_ ABSL_GUARDED_BY(mutex_);
};

// The page that shows the report: one HTML document without external assets.
extern const char kStatusPageHtml[];

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_STATUS_REPORT_H_
