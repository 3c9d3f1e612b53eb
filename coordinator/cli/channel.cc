#include "coordinator/cli/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/rpc_status.h"

namespace espalier::cli {
namespace {

bool IsAddress(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return address.size() > 5;
  const size_t colon = address.rfind(':');
  int port = 0;
  return colon != std::string::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 &&
         port <= 65535;
}

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;

// Shows the token with each call.
class TokenInterceptor final : public Interceptor {
 public:
  explicit TokenInterceptor(const AccessToken& token) : token_(token) {}
  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert(token_.AsMetadata());
    }
    methods->Proceed();
  }

 private:
  const AccessToken token_;
};

class TokenInterceptors final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptors(AccessToken token) : token_(std::move(token)) {}
  Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(token_);
  }

 private:
  const AccessToken token_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address, const Credentials& credentials) {
  if (!IsAddress(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is not an address: HOST:PORT or unix:PATH"));
  }
  grpc::ChannelArguments arguments;
  // A web proxy does not lead to a cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server whose machine is gone sends no reset.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 2'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto channel =
      NewChannelCredentials(address, credentials.tls, arguments);
  std::vector<
      std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
      interceptors;
  if (!credentials.token.empty()) {
    interceptors.push_back(
        std::make_unique<TokenInterceptors>(credentials.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, channel, arguments, std::move(interceptors));
}

absl::Status AwaitConnection(grpc::Channel& channel, const std::string& address,
                             absl::Time deadline) {
  auto state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE ||
        !channel.WaitForStateChange(state, absl::ToChronoTime(deadline))) {
      return NobodyThere(address, /*why=*/"");
    }
    state = channel.GetState(/*try_to_connect=*/true);
  }
  return absl::OkStatus();
}

}  // namespace espalier::cli
