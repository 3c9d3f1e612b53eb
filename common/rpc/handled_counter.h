#ifndef ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_
#define ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "grpcpp/support/server_interceptor.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"

namespace espalier {

// Counts finished calls as grpc_server_handled_total, the usual name in
// dashboards, by service, method and code. A method that the server does not
// have counts as method "unknown" of service "unknown", so that callers cannot
// create label values. The registry outlives the server.
class HandledCounter final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `services`: full names of services that are compiled into this program.
  HandledCounter(prometheus::Registry& registry,
                 absl::Span<const std::string> services);

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  prometheus::Family<prometheus::Counter>& handled_;
  absl::flat_hash_set<std::string> methods_;  // "/package.Service/Method"
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_
