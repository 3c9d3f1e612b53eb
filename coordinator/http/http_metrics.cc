#include "coordinator/http/http_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/obs/metrics.h"

namespace espalier::coordinator {

class HttpMetrics::CountedAnswer final : public http::Answer {
 public:
  CountedAnswer(HttpMetrics* metrics, std::string route,
                std::unique_ptr<http::Answer> answer)
      : metrics_(metrics),
        route_(std::move(route)),
        start_(absl::Now()),
        answer_(std::move(answer)) {}
  // The server destroys an answer when all of it is sent.
  ~CountedAnswer() override {
    answer_.reset();
    metrics_->Add(route_, status_, absl::ToDoubleSeconds(absl::Now() - start_));
  }

  std::optional<Head> Begin() override {
    std::optional<Head> head = answer_->Begin();
    if (head) status_ = head->response.status;
    return head;
  }
  std::optional<std::string> Next() override { return answer_->Next(); }

 private:
  HttpMetrics* const metrics_;
  const std::string route_;
  const absl::Time start_;
  std::unique_ptr<http::Answer> answer_;
  int status_ = 0;
};

std::unique_ptr<http::Answer> HttpMetrics::Count(
    absl::string_view route, std::unique_ptr<http::Answer> answer) {
  return std::make_unique<CountedAnswer>(this, std::string(route),
                                         std::move(answer));
}

void HttpMetrics::Add(const std::string& route, int status, double seconds) {
  MutexLock lock(&mutex_);
  OfRoute& metrics = routes_[route];
  if (metrics.seconds == nullptr) {
    metrics.seconds = &AddHistogram(
        *registry_,
        {.name = "espalier_http_request_duration_seconds",
         .help = "Seconds from a request's last byte to the answer's last.",
         .labels = {{"route", route}}},
        RequestSecondsBuckets());
  }
  metrics.seconds->Observe(seconds);
  prometheus::Counter*& counter = metrics.by_status[status];
  if (counter == nullptr) {
    counter = &AddCounter(
        *registry_,
        {.name = "espalier_http_requests_total",
         .help = "Requests over HTTP that have ended. Status 0: the client "
                 "left before there was one.",
         .labels = {{"route", route}, {"status", absl::StrCat(status)}}});
  }
  counter->Increment();
}

}  // namespace espalier::coordinator
