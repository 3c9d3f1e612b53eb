#include "tests/testing/trace_collector.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"

namespace espalier::testing {

namespace collector = opentelemetry::proto::collector::trace::v1;

TraceCollector::TraceCollector(
    std::string address, std::shared_ptr<grpc::ServerCredentials> credentials)
    : address_(std::move(address)) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, std::move(credentials), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  ESPALIER_CHECK(server_ != nullptr);
  if (!absl::StartsWith(address_, "unix:")) {
    address_ = absl::StrCat("127.0.0.1:", port);
  }
}

TraceCollector::~TraceCollector() {
  server_->Shutdown(absl::ToChronoTime(absl::Now()));
}

std::vector<TraceCollector::Seen> TraceCollector::Await(
    const std::function<bool(const std::vector<Seen>&)>& enough) {
  MutexLock lock(&mutex_);
  mutex_.AwaitUntil(
      [&] {
        mutex_.AssertHeld();
        return enough(seen_);
      },
      absl::Now() + absl::Minutes(1));
  return seen_;
}

void TraceCollector::Answer(grpc::Status status, int64_t rejected_spans) {
  MutexLock lock(&mutex_);
  answer_ = std::move(status);
  rejected_ = rejected_spans;
}

int TraceCollector::num_calls() const {
  MutexLock lock(&mutex_);
  return num_calls_;
}

grpc::Status TraceCollector::Export(
    grpc::ServerContext* /*context*/,
    const collector::ExportTraceServiceRequest* request,
    collector::ExportTraceServiceResponse* response) {
  MutexLock lock(&mutex_);
  ++num_calls_;
  if (!answer_.ok()) return answer_;
  for (const auto& resource : request->resource_spans()) {
    std::string service;
    for (const auto& attribute : resource.resource().attributes()) {
      if (attribute.key() == "service.name") {
        service = attribute.value().string_value();
      }
    }
    for (const auto& scope : resource.scope_spans()) {
      for (const auto& span : scope.spans()) seen_.push_back({service, span});
    }
  }
  if (rejected_ > 0) {
    response->mutable_partial_success()->set_rejected_spans(rejected_);
  }
  return grpc::Status::OK;
}

}  // namespace espalier::testing
