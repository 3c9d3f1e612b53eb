// How long one block waits for another.
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/device/tuner.h"

namespace espalier::cuda {

// Counters by which blocks of a chain wait for each other, with and without the
// fence for bulk copies. A round goes there and back: two hand-overs.
std::vector<Finding> TuneHandOver(Tuner& tuner) {
  constexpr double kMaxUs = 2;
  const uint32_t rounds = tuner.tiny() ? 3 : 1000;
  Finding finding = {
      .form = "counters between the blocks of a chain",
      .threshold = absl::StrFormat("at most %.0f us a hand-over", kMaxUs),
      .is_taken = true};
  for (const int waiters : {1, 4, 32}) {
    // Each form has counters of its own, which go on from call to call.
    const auto plain = tuner.New<uint32_t>(kHandOverWords);
    const auto fenced = tuner.New<uint32_t>(kHandOverWords);
    const auto with = [&](const DeviceArray<uint32_t>& counters, bool fences) {
      return [&tuner, &counters, waiters, rounds, fences](int call) {
        tuner.Launch(HandOverArgs{.counters = counters.data(),
                                  .before = call * rounds,
                                  .rounds = rounds,
                                  .waiters = waiters,
                                  .is_fenced = fences});
      };
    };
    std::vector<double> us =
        tuner.Compare({with(plain, false), with(fenced, true)});
    for (double& of_form : us) of_form /= 2 * rounds;
    absl::StrAppendFormat(&finding.figure,
                          "%d waiters: %.2f us, %.2f with fences; ", waiters,
                          us[0], us[1]);
    finding.is_taken &= us[1] <= kMaxUs;
  }
  finding.line = finding.is_taken
                     ? "common/cuda/counters.h: blocks wait for counters"
                     : "common/cuda/kernels/chain.h: sums of splits by the "
                       "shared memory of a cluster first";
  finding.is_in_source = finding.is_taken;
  return {finding};
}

}  // namespace espalier::cuda
