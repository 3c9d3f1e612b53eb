#include "drafter/drafters.h"

#include "drafter/quick_drafters.h"

namespace espalier::drafter {

void RegisterDrafters(DrafterRegistry& registry) {
  RegisterQuickDrafters(registry);
  registry.Add("eagle", NewEagleDrafter);
  registry.Add("dflash", NewDflashDrafter);
  registry.Add("lm", NewLmDrafter);
  registry.Add("replay", NewReplayDrafter);
}

bool RunsOnDevices(absl::string_view type) {
  return type == "eagle" || type == "dflash" || type == "lm";
}

}  // namespace espalier::drafter
