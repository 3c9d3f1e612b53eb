#include "coordinator/cli/flags/endpoint_flags.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::cli {

void EndpointFlags::AddTo(FlagSet& flags, const Places& places) {
  flags.Add({"--address", "ADDRESS",
             "HOST:PORT or unix:PATH of the coordinator, or A,B of several:\n"
             "if one is lost, the next goes on with the answer;\n"
             "default the quick start's: " +
                 places.address},
            &address_);
  connection_.AddTo(flags);
  flags.AddSwitch(
      {"--local", "", "serve it in this process instead, as `serve` would"},
      &local_);
  flags.Add({"--model", "PATH",
             "with --local: a model's folder or .gguf file;\n"
             "default " +
                 places.model.string()},
            &model_);
  flags.Add({"--device", "DEVICE", "with --local: as of `serve`"}, &device_);
  flags.Add({"--config", "FILE", "with --local: as of `serve`"}, &config_);
  flags.Add({"--set", "PATH=VALUE", "with --local: as of `serve`; repeatable"},
            &overrides_);
}

absl::StatusOr<Endpoint> EndpointFlags::Open(
    const Places& places, const LocalClusterFactory& factory) const {
  if (local_ && address_.has_value()) {
    return absl::InvalidArgumentError("--local and --address exclude another");
  }
  if (!local_ && (model_ || device_ || config_ || !overrides_.values.empty())) {
    return absl::InvalidArgumentError(
        "--model, --device, --config and --set need --local: a server has its "
        "model already");
  }
  Endpoint endpoint;
  std::string address = address_.value_or(places.address);
  if (local_) {
    std::vector<std::string> overrides = overrides_.values;
    if (model_) overrides.push_back(absl::StrCat("verifier.model=", *model_));
    if (device_)
      overrides.push_back(absl::StrCat("verifier.device=", *device_));
    ASSIGN_OR_RETURN(endpoint.cluster,
                     factory({.config_file = config_.value_or(""),
                              .overrides = std::move(overrides)},
                             places));
    address = endpoint.cluster->address();
  }
  ASSIGN_OR_RETURN(const Credentials credentials, connection_.Read());
  auto client = InferenceClient::Create(address, credentials);
  if (!client.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--address: ", client.status().message()));
  }
  endpoint.client = *std::move(client);
  return endpoint;
}

}  // namespace espalier::cli
