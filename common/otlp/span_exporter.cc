#include "common/otlp/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/obs/log.h"
#include "common/otlp/otlp_message.h"
#include "common/rpc/listen_address.h"
#include "grpcpp/create_channel.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace espalier {
namespace {

namespace collector = opentelemetry::proto::collector::trace::v1;

prometheus::Counter& SpanCounter(prometheus::Registry& metrics,
                                 const char* outcome) {
  return AddCounter(
      metrics,
      {.name = "espalier_trace_spans_total",
       .help = "Spans by what became of them: sent to the collector, dropped "
               "for lack of room while it was away, or refused by it.",
       .labels = {{"outcome", outcome}}});
}

// Returns whether the protocol has the client try again.
bool MayWorkLater(grpc::StatusCode code) {
  return code == grpc::UNAVAILABLE || code == grpc::DEADLINE_EXCEEDED ||
         code == grpc::CANCELLED || code == grpc::ABORTED ||
         code == grpc::RESOURCE_EXHAUSTED;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanExporter>> SpanExporter::Start(
    const v1::TracingConfig& config, Options options,
    prometheus::Registry& metrics) {
  if (config.endpoint().empty()) {
    if (config.ByteSizeLong() == 0) return nullptr;
    return absl::InvalidArgumentError(
        "server.tracing.endpoint: needed by the fields beside it");
  }
  RETURN_IF_ERROR(WithPrefix("server.tracing.endpoint",
                             ListenAddress::Parse(config.endpoint()).status()));
  ASSIGN_OR_RETURN(
      auto certificates,
      WithPrefix("server.tracing.tls", OpenClientCertificates(config.tls())));
  if (!config.service_name().empty()) options.service = config.service_name();
  LogInfo(absl::StrCat("traces go to ", config.endpoint()));
  return std::unique_ptr<SpanExporter>(
      new SpanExporter(config.endpoint(), {.files = std::move(certificates)},
                       std::move(options), metrics));
}

SpanExporter::SpanExporter(std::string endpoint, ChannelTls tls,
                           Options options, prometheus::Registry& metrics)
    : endpoint_(std::move(endpoint)),
      tls_(std::move(tls)),
      options_(std::move(options)),
      sent_(SpanCounter(metrics, "sent")),
      dropped_(SpanCounter(metrics, "dropped")),
      refused_(SpanCounter(metrics, "refused")),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  thread_.join();
}

void SpanExporter::Record(Span span) {
  {
    MutexLock lock(&mutex_);
    if (queue_.size() < kMaxQueued) {
      queue_.push_back(std::move(span));
      return;
    }
  }
  dropped_.Increment();
}

void SpanExporter::Run() {
  absl::Duration pause = options_.period;
  bool stopping = false;
  Batch batch;  // not sent yet
  while (!stopping) {
    {
      MutexLock lock(&mutex_);
      stopping = mutex_.AwaitUntil(
          [this] {
            mutex_.AssertHeld();
            return stopping_;
          },
          absl::Now() + pause);
    }
    bool sends = true;
    while (sends) {
      if (batch.empty()) batch = TakeBatch();
      if (batch.empty()) break;
      sends = Send(batch, stopping ? options_.last_timeout : options_.timeout);
      if (sends) batch.clear();
    }
    pause = sends ? options_.period
            : pause < options_.first_pause
                ? options_.first_pause
                : std::min(pause * 2, options_.longest_pause);
  }
  dropped_.Increment(static_cast<double>(batch.size()));
}

SpanExporter::Batch SpanExporter::TakeBatch() {
  MutexLock lock(&mutex_);
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(
                                        std::min(queue_.size(), kMaxBatch));
  Batch batch(std::make_move_iterator(queue_.begin()),
              std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

bool SpanExporter::Send(const Batch& batch, absl::Duration timeout) {
  if (channel_ == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const auto credentials = NewChannelCredentials(endpoint_, tls_, arguments);
    channel_ = grpc::CreateCustomChannel(endpoint_, credentials, arguments);
  }
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  {
    MutexLock lock(&mutex_);
    call_ = &context;
  }
  collector::ExportTraceServiceResponse response;
  const grpc::Status status =
      collector::TraceService::NewStub(channel_)->Export(
          &context, ToOtlp(options_.service, batch), &response);
  {
    MutexLock lock(&mutex_);
    call_ = nullptr;
  }
  if (!status.ok()) {
    Refused(status, batch.size());
    return !MayWorkLater(status.error_code());
  }
  if (std::exchange(is_away_, false)) LogInfo("the collector takes traces");
  const auto rejected =
      static_cast<double>(response.partial_success().rejected_spans());
  const double refused =
      std::clamp(rejected, 0.0, static_cast<double>(batch.size()));
  refused_.Increment(refused);
  sent_.Increment(static_cast<double>(batch.size()) - refused);
  return true;
}

// A new connection reads the certificates again.
void SpanExporter::Refused(const grpc::Status& status, size_t spans) {
  channel_.reset();
  if (!MayWorkLater(status.error_code())) {
    refused_.Increment(static_cast<double>(spans));
  }
  if (std::exchange(is_away_, true)) return;
  LogWarning(absl::StrCat("the collector does not take traces: ",
                          status.error_message()));
}

}  // namespace espalier
