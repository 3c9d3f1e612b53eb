#include "coordinator/in_process_peers.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "drafter/quick_drafters.h"

namespace espalier::coordinator {
namespace {

absl::StatusOr<drafter::BuiltDrafter> Build(
    const v1::CoordinatorDrafter& drafter, const std::string& model,
    prometheus::Registry& metrics) {
  if (!drafter.address().empty() || !drafter.token_file().empty()) {
    return absl::InvalidArgumentError(
        "a drafter has an address, or a type if it is in this process");
  }
  drafter::DrafterRegistry types("drafter type in this process");
  drafter::RegisterQuickDrafters(types);
  v1::DrafterEngineConfig engine;
  engine.set_name(drafter.name());
  engine.set_type(drafter.type());
  engine.set_model(model);
  *engine.mutable_options() = drafter.options();
  return drafter::BuildDrafter(types, engine, metrics);
}

}  // namespace

absl::StatusOr<InProcessPeers> InProcessPeers::Create(
    const v1::CoordinatorConfig& config, prometheus::Registry& metrics,
    SpanSink* spans) {
  InProcessPeers peers;
  for (int i = 0; i < config.drafters_size(); ++i) {
    if (config.drafters(i).type().empty()) continue;
    ASSIGN_OR_RETURN(
        drafter::BuiltDrafter built,
        WithPrefix(absl::StrCat("drafters.", i),
                   Build(config.drafters(i), config.model(), metrics)));
    built.Trace(spans);
    peers.drafters_.push_back(std::move(built));
  }
  return peers;
}

std::vector<DrafterHandle> InProcessPeers::AsHandles() const {
  std::vector<DrafterHandle> handles;
  for (const drafter::BuiltDrafter& drafter : drafters_) {
    handles.push_back({.name = drafter.info.name,
                       .endpoint = &drafter.endpoint(),
                       .info = [info = drafter.info] { return info; },
                       .trusted = true});
  }
  return handles;
}

}  // namespace espalier::coordinator
