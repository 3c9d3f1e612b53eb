// A collector of OpenTelemetry's traces in the test's process.
#ifndef ESPALIER_TESTS_TESTING_TRACE_COLLECTOR_H_
#define ESPALIER_TESTS_TESTING_TRACE_COLLECTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace espalier::testing {

class TraceCollector final
    : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  // Listens on `address`, "unix:PATH", or on a free port of the loopback.
  explicit TraceCollector(std::string address = "127.0.0.1:0",
                          std::shared_ptr<grpc::ServerCredentials> credentials =
                              grpc::InsecureServerCredentials());
  ~TraceCollector() override;

  const std::string& address() const { return address_; }

  struct Seen {
    std::string service;  // service.name
    opentelemetry::proto::trace::v1::Span span;
  };
  // Waits until `enough` is true for all that has come, a minute at most, and
  // returns that.
  std::vector<Seen> Await(
      const std::function<bool(const std::vector<Seen>&)>& enough);

  // Sets what further batches are answered with; OK: they are taken.
  void Answer(grpc::Status status, int64_t rejected_spans = 0);
  int num_calls() const;

  grpc::Status Export(
      grpc::ServerContext* context,
      const opentelemetry::proto::collector::trace::v1::
          ExportTraceServiceRequest* request,
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse*
          response) override;

 private:
  std::string address_;
  mutable Mutex mutex_;
  std::vector<Seen> seen_ ABSL_GUARDED_BY(mutex_);
  grpc::Status answer_ ABSL_GUARDED_BY(mutex_);
  int64_t rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_TRACE_COLLECTOR_H_
