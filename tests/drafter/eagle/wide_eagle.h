#ifndef ESPALIER_TESTS_DRAFTER_EAGLE_WIDE_EAGLE_H_
#define ESPALIER_TESTS_DRAFTER_EAGLE_WIDE_EAGLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {

// A layout of heads for the wide Llama (WriteWideLlama), as the published
// families have them; kernels for GPUs cover it.
struct EagleLayout {
  std::string name;
  bool is_eagle1 = false;
  std::string prefix = "";          // or "model."
  std::string layer = "midlayer.";  // or "layers.0."
  bool fc_bias = false;
  bool own_embedding = false, own_head = true;
  bool fc_norm = false, norm_before_fc = false, norm_before_residual = false;
  bool norm_output = false, qk_norm = false;
  int64_t hidden = 64;        // below 128: the target's
  int64_t draft_vocab = 100;  // kTinyVocab: no d2t
  int64_t window = 0;         // of its layer; 0: none
};

// Returns one of each kind that the CPU's engine has.
std::vector<EagleLayout> EagleLayouts();

// config.json and the tensors of a random head.
struct WideEagle {
  nlohmann::json config;
  TinyTensors tensors = {};
};
WideEagle MakeWideEagle(const EagleLayout& layout);
void WriteWideEagle(const EagleLayout& layout, const std::string& folder);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_DRAFTER_EAGLE_WIDE_EAGLE_H_
