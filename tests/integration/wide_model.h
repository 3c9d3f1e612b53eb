// A model whose target and drafters the kernels for GPUs cover.
#ifndef ESPALIER_TESTS_INTEGRATION_WIDE_MODEL_H_
#define ESPALIER_TESTS_INTEGRATION_WIDE_MODEL_H_

#include <string>
#include <vector>

#include "espalier/v1/inference.pb.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/integration/process.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {

inline constexpr uint32_t kWideTokens = 24;

// Returns the wide Llama with its drafters, in drafters/eagle and
// drafters/block.
inline const std::string& WideModelFolder() {
  static const std::string* const folder = [] {
    auto* const path = new std::string(NewFolder() + "/wide");
    WriteWideLlama(*path);
    WriteWideEagle(EagleLayouts().back(), *path + "/drafters/eagle");
    WriteTinyDflash(MakeTinyDflash(200, kWideDflash),
                    *path + "/drafters/block");
    return path;
  }();
  return *folder;
}

// kWideTokens tokens, with small trees of all these drafters in every round.
inline v1::GenerateRequest WideRequest(
    float temperature, const std::vector<std::string>& drafters) {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_temperature(temperature);
  request.set_seed(3);
  request.set_max_tokens(kWideTokens);
  request.set_ignore_eos(true);
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  speculation.set_strategy("union");
  speculation.set_max_nodes(8);
  for (const std::string& name : drafters) speculation.add_drafters(name);
  return request;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_INTEGRATION_WIDE_MODEL_H_
