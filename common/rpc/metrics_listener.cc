#include "common/rpc/metrics_listener.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/listen_address.h"
#include "common/rpc/process_metrics.h"

namespace espalier {

MetricsListener::MetricsListener()
    : process_(std::make_shared<ProcessMetrics>()) {}

MetricsListener::~MetricsListener() = default;

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    absl::string_view text, std::shared_ptr<prometheus::Registry> registry) {
  ASSIGN_OR_RETURN(ListenAddress address, ListenAddress::Parse(text));
  if (!address.unix_path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics need HOST:PORT, not ", text));
  }
  RETURN_IF_ERROR(PrepareToListen(address));
  std::unique_ptr<MetricsListener> listener(new MetricsListener());
  listener->registry_ = std::move(registry);
  try {
    listener->exposer_ =
        std::make_unique<prometheus::Exposer>(std::vector<std::string>{
            "listening_ports", address.ToString(), "num_threads", "2"});
    address.port = listener->exposer_->GetListeningPorts().at(0);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": ", error.what()));
  }
  listener->exposer_->RegisterCollectable(listener->registry_);
  listener->exposer_->RegisterCollectable(listener->process_);
  listener->address_ = address.ToString();
  return listener;
}

}  // namespace espalier
