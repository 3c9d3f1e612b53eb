#ifndef ESPALIER_DRAFTER_DRAFTERS_H_
#define ESPALIER_DRAFTER_DRAFTERS_H_

#include "absl/strings/string_view.h"
#include "drafter/engine/drafter_factories.h"

namespace espalier::drafter {

// Returns whether a type has the option `device` (heads/head_runtime.h): its
// network runs on a GPU too.
bool RunsOnDevices(absl::string_view type);

// Registers all drafter types.
void RegisterDrafters(DrafterRegistry& registry);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTERS_H_
