#ifndef ESPALIER_COMMON_MODEL_FILES_ROPE_SCALING_H_
#define ESPALIER_COMMON_MODEL_FILES_ROPE_SCALING_H_

#include <cstdint>
#include <vector>

namespace espalier {

// How rotary positions are stretched beyond those of the training, as
// transformers computes it (modeling_rope_utils.py).
struct RopeScaling {
  enum class Kind {
    kLinear,  // all positions divided by `factor`
    kLlama3,  // "rope_type": "llama3": long waves are, short ones are not
    kYarn,    // the same with a ramp over dimensions: arXiv 2309.00071
  };
  Kind kind = Kind::kLinear;
  double factor = 1;
  int64_t original_max_positions = 8192;  // of Llama 3 and YaRN
  // Llama 3 stretches the waves that fit less often than `low` into the
  // original length, and keeps those that fit more often than `high`.
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  // The ends of YaRN's ramp (whole dimensions if `truncate`), and the factor of
  // queries and keys.
  double beta_slow = 1;
  double beta_fast = 32;
  bool truncate = true;
  double attention_factor = 1;
};

// Returns what YaRN recommends to multiply queries and keys by.
double YarnAttentionFactor(double factor, double mscale = 1);

// [head_dim / 2] angle per position of each rotated pair of a head of
// `head_dim` values, whose frequencies without scaling are powers of `theta`.
std::vector<double> ScaledFrequencies(const RopeScaling& scaling, double theta,
                                      int64_t head_dim);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_ROPE_SCALING_H_
