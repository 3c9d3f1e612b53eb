#ifndef ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_
#define ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_

#include "grpcpp/support/server_interceptor.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"

namespace espalier {

// Counts finished calls as grpc_server_handled_total, by service, method and
// code: the name that dashboards know. The registry outlives the server.
class HandledCounter final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit HandledCounter(prometheus::Registry& registry);

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  prometheus::Family<prometheus::Counter>& handled_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HANDLED_COUNTER_H_
