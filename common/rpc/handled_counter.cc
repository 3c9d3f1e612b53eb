#include "common/rpc/handled_counter.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "google/protobuf/descriptor.h"

namespace espalier {
namespace {

using grpc::experimental::InterceptionHookPoints;

// The interceptor of one call.
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
  void Count(grpc::StatusCode code) {
    const std::vector<std::string> parts = absl::StrSplit(method_, '/');
    handled_
        .Add({{"grpc_service", parts[1]},
              {"grpc_method", parts[2]},
              {"grpc_code",
               absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}})
        .Increment();
  }

  prometheus::Family<prometheus::Counter>& handled_;
  const std::string method_;  // "/package.Service/Method"
};

constexpr char kUnknown[] = "/unknown/unknown";

// Methods of gRPC's own services, whose descriptors are not linked.
constexpr const char* kBuiltInMethods[] = {
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};

}  // namespace

HandledCounter::HandledCounter(prometheus::Registry& registry,
                               absl::Span<const std::string> services)
    : handled_(prometheus::BuildCounter()
                   .Name("grpc_server_handled_total")
                   .Help("Calls finished by the server, by their code.")
                   .Register(registry)),
      methods_(std::begin(kBuiltInMethods), std::end(kBuiltInMethods)) {
  for (const std::string& service : services) {
    const google::protobuf::ServiceDescriptor* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            service);
    ESPALIER_CHECK(descriptor != nullptr);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      methods_.insert(
          absl::StrCat("/", service, "/", descriptor->method(i)->name()));
    }
  }
}

grpc::experimental::Interceptor* HandledCounter::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  const bool known = methods_.contains(info->method());
  return new Interceptor(handled_, known ? info->method() : kUnknown);
}

}  // namespace espalier
