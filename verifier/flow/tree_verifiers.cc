#include "verifier/flow/tree_verifiers.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "verifier/flow/single_step.h"

namespace espalier::verifier {
namespace {

using Step = std::unique_ptr<SingleStep> (*)();
constexpr std::pair<const char*, Step> kSteps[] = {
    {"gr", NewGrStep},
    {"kseq", NewKseqStep},
    {"rrs", NewRrsStep},
    {"sps", NewSpsStep},
};

using Lifting = std::unique_ptr<TreeVerifier> (*)(std::unique_ptr<SingleStep>);
constexpr std::pair<const char*, Lifting> kLiftings[] = {
    {"lv", NewLayered},
    {"lvseq", NewSequentialLayered},
    {"tv", NewTopDown},
};

}  // namespace

void RegisterTreeVerifiers(Registry<TreeVerifier>& registry) {
  registry.Add("bv", NewBlock);
  registry.Add("gbv", NewGreedyMultiPath);
  registry.Add("specinfer", NewSpecInfer);
  registry.Add("trv", NewTraversal);
  for (const auto& [lifting, lift] : kLiftings) {
    for (const auto& [step, make_step] : kSteps) {
      registry.Add(
          absl::StrCat(lifting, "-", step),
          [lift = lift, make_step = make_step] { return lift(make_step()); });
    }
  }
}

void RegisterComparedVerifiers(Registry<TreeVerifier>& registry) {
  RegisterTreeVerifiers(registry);
  registry.Add("walk", NewTargetSampling);
}

}  // namespace espalier::verifier
