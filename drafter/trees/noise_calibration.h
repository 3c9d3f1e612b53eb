#ifndef ESPALIER_DRAFTER_TREES_NOISE_CALIBRATION_H_
#define ESPALIER_DRAFTER_TREES_NOISE_CALIBRATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/speculation/sampling_params.h"
#include "drafter/engine/option_reader.h"
#include "drafter/trees/gumbel_coupling.h"

namespace espalier::drafter {

// Learns how much weight a drafter should give to the known noise of a sampling
// target, from the tokens that the target emitted where the drafter had
// candidates. The larger a drafter's error, the less the noise should count
// (see ApplyGumbelCoupling). For each temperature and depth it takes the noise
// scale that gave the emitted tokens the highest likelihood, recent tokens
// weighing most; ignoring the noise is one of the choices. One thread.
class NoiseCalibration {
 public:
  // `fixed`: the scale, if it is not learned; infinite: the noise is ignored.
  explicit NoiseCalibration(std::optional<double> fixed) : fixed_(fixed) {}

  // Arguments of ApplyGumbelCoupling for a node at `depth` (the root: 0). A
  // greedy `sampling` means that the noise is ignored.
  struct Belief {
    SamplingParams sampling;
    double noise_scale = 1;
  };
  Belief BeliefAt(const SamplingParams& sampling, int64_t depth) const;

  // The target emitted `emitted` at `position` after a node at `depth` that had
  // these candidates (before ApplyGumbelCoupling).
  void Observe(const SamplingParams& sampling, int64_t depth, int64_t position,
               const std::vector<Candidate>& candidates, TokenId emitted);

 private:
  static constexpr std::array<double, 8> kScales = {0.35, 0.5, 0.7, 1.0,
                                                    1.4,  2.0, 2.8, 4.0};
  // Decayed log-likelihoods of the scales, then of no noise.
  using Record = std::array<double, kScales.size() + 1>;
  using Key = std::pair<int64_t, int64_t>;  // classes of temperature and depth
  static Key KeyOf(const SamplingParams& sampling, int64_t depth);
  static Belief BeliefOf(const SamplingParams& sampling, size_t choice);

  const std::optional<double> fixed_;
  std::map<Key, Record> records_;
};

// Reads the option noise_scale of draft heads: a number; "auto" (default):
// learned; "none": infinite.
std::optional<double> ReadNoiseScale(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_TREES_NOISE_CALIBRATION_H_
