#ifndef ESPALIER_DRAFTER_QUICK_DRAFTERS_H_
#define ESPALIER_DRAFTER_QUICK_DRAFTERS_H_

#include "drafter/engine/drafter_factories.h"

namespace espalier::drafter {

// The list of drafter types without a network (Drafter::is_quick): they may
// live in the coordinator's process, which links no other.
void RegisterQuickDrafters(DrafterRegistry& registry);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_QUICK_DRAFTERS_H_
