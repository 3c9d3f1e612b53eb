#ifndef ESPALIER_DRAFTER_NOISE_CALIBRATION_H_
#define ESPALIER_DRAFTER_NOISE_CALIBRATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/spec/sampling_params.h"
#include "drafter/foresight.h"
#include "drafter/option_reader.h"

namespace espalier::drafter {

// How a drafter should foresee a sampling target: learned from what the target
// emitted where the drafter had candidates. A weak drafter errs by much, and
// the noise that it knows should count for less (see Foresee). For each
// temperature and depth the scale is taken under which the emitted tokens were
// likeliest, with the recent ones weighing most; not to look at the noise at
// all is one of the choices. One thread.
class NoiseCalibration {
 public:
  // `fixed`: the scale, if it is not to be learned; infinite: the noise is not
  // looked at.
  explicit NoiseCalibration(std::optional<double> fixed) : fixed_(fixed) {}

  // Arguments of Foresee for a node at `depth` (the root: 0). A greedy
  // `sampling` means: without noise.
  struct Belief {
    SamplingParams sampling;
    double noise_scale = 1;
  };
  Belief BeliefAt(const SamplingParams& sampling, int64_t depth) const;

  // The target emitted `emitted` at `position` after a node at `depth` that had
  // these candidates, as they are before Foresee.
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

// The option noise_scale of draft heads: a number; "auto" (default): to be
// learned; "none": infinite.
std::optional<double> ReadNoiseScale(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NOISE_CALIBRATION_H_
