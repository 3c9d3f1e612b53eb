#ifndef ESPALIER_COORDINATOR_DRAFTER_DUTY_H_
#define ESPALIER_COORDINATOR_DRAFTER_DUTY_H_

#include <string>

namespace espalier::coordinator {

enum class DrafterRole {
  kOff,     // is not asked
  kShadow,  // is asked and judged; never waited for, never verified
  kActive,
};

// What an operator wants of a drafter.
struct DrafterDuty {
  static constexpr double kLeastWeight = 0.01, kMostWeight = 100;

  DrafterRole role = DrafterRole::kActive;
  double weight = 1;  // of its tokens where nodes are chosen
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_DRAFTER_DUTY_H_
