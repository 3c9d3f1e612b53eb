#ifndef ESPALIER_COMMON_OTLP_SPAN_EXPORTER_H_
#define ESPALIER_COMMON_OTLP_SPAN_EXPORTER_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/obs/metrics.h"
#include "common/rpc/channel_tls.h"
#include "common/trace/span.h"
#include "espalier/v1/config.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace espalier {

// Sends spans to a collector by OTLP over gRPC, in batches, from a thread of
// its own. While the collector is away they wait in a queue; for more than the
// queue has room for, new ones are dropped. Nothing else ever waits for it.
class SpanExporter final : public SpanSink {
 public:
  static constexpr size_t kMaxQueued = 4096;  // spans
  static constexpr size_t kMaxBatch = 512;

  struct Options {
    // As the collector shows it: service.name.
    std::string service;
    absl::Duration period = absl::Seconds(1);       // between batches
    absl::Duration first_pause = absl::Seconds(1);  // after a failure; doubled
    absl::Duration longest_pause = absl::Seconds(30);
    absl::Duration timeout = absl::Seconds(5);       // of a batch
    absl::Duration last_timeout = absl::Seconds(1);  // when it is destroyed
  };
  // Null if `config` has no endpoint. INVALID_ARGUMENT, NOT_FOUND: name the
  // field. `metrics` must outlive it.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Start(
      const v1::TracingConfig& config, Options options,
      prometheus::Registry& metrics);

  // Sends what is queued, if the collector takes it at once.
  ~SpanExporter() override;

  void Record(Span span) override;

 private:
  using Batch = std::vector<Span>;

  SpanExporter(std::string endpoint, ChannelTls tls, Options options,
               prometheus::Registry& metrics);

  void Run();
  Batch TakeBatch();
  // Returns whether the collector has it, or will never take it.
  bool Send(const Batch& batch, absl::Duration timeout);
  void Refused(const grpc::Status& status, size_t spans);

  const std::string endpoint_;
  const ChannelTls tls_;
  const Options options_;
  prometheus::Counter& sent_;
  prometheus::Counter& dropped_;
  prometheus::Counter& refused_;

  Mutex mutex_;
  std::deque<Span> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;  // that runs

  // Used by the thread.
  std::shared_ptr<grpc::Channel> channel_;  // null: a new one is needed
  bool is_away_ = false;                    // the log says so
  std::thread thread_;                      // last
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_OTLP_SPAN_EXPORTER_H_
