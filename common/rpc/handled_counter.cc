#include "common/rpc/handled_counter.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"

namespace espalier {
namespace {

using grpc::experimental::InterceptionHookPoints;

// Of one call.
class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(prometheus::Family<prometheus::Counter>& handled,
              std::string method)
      : handled_(handled), method_(std::move(method)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      Count(batch->GetSendStatus().error_code());
    }
    batch->Proceed();
  }

 private:
  // `method_` is "/package.Service/Method".
  void Count(grpc::StatusCode code) {
    const std::vector<std::string> parts = absl::StrSplit(method_, '/');
    if (parts.size() != 3) return;
    handled_
        .Add({{"grpc_service", parts[1]},
              {"grpc_method", parts[2]},
              {"grpc_code",
               absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}})
        .Increment();
  }

  prometheus::Family<prometheus::Counter>& handled_;
  const std::string method_;
};

}  // namespace

HandledCounter::HandledCounter(prometheus::Registry& registry)
    : handled_(prometheus::BuildCounter()
                   .Name("grpc_server_handled_total")
                   .Help("Calls finished by the server, by their code.")
                   .Register(registry)) {}

grpc::experimental::Interceptor* HandledCounter::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  return new Interceptor(handled_, info->method());
}

}  // namespace espalier
