// A tree from the wire, and the merge policies on what passes its validation.
#include "common/base/check.h"
#include "common/rpc/convert.h"
#include "coordinator/merge/calibration.h"
#include "coordinator/merge/merge_policies.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/sample_tree.h"

namespace espalier::testing {
namespace token_tree_fuzz {

constexpr TokenTree::Limits kLimits = {
    .max_nodes = 64, .max_depth = 16, .vocab_size = 1000};

void Merge(const TokenTree& tree) {
  Registry<coordinator::MergePolicy> policies("strategy");
  coordinator::RegisterMergePolicies(policies);
  coordinator::Calibration shared;
  const coordinator::SessionCalibration calibration(&shared);
  TokenTree cut = tree;
  cut.Cut((tree.num_nodes() + 1) / 2);
  const std::vector<coordinator::DraftedTree> trees = {
      {.drafter = 0, .tree = &tree, .trusted = true},
      {.drafter = 1, .tree = &cut, .peer = 1}};
  for (const std::string& name : policies.Names()) {
    const auto policy = policies.Create(name);
    const TokenTree merged = (*policy)->Merge({.root = tree.tokens[0],
                                               .trees = trees,
                                               .max_nodes = kLimits.max_nodes,
                                               .calibration = &calibration});
    ESPALIER_CHECK(merged.Validate(kLimits).ok());
    ESPALIER_CHECK(merged.provenance.size() == merged.tokens.size());
  }
}

std::vector<std::string> Seeds() {
  return {ToProto(SampleTree(3)).SerializeAsString(),
          ToProto(TokenTree::RootOnly(999)).SerializeAsString()};
}

bool Try(std::string_view bytes) {
  v1::TokenTree message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  const auto tree = FromProto(message);
  if (!tree.ok() || !tree->Validate(kLimits).ok()) return false;
  const auto again = FromProto(ToProto(*tree));
  ESPALIER_CHECK(again.ok() && again->tokens == tree->tokens &&
                 again->parents == tree->parents &&
                 again->samples == tree->samples);
  ESPALIER_CHECK(tree->Depths().size() == tree->tokens.size());
  for (int32_t node = 0; node < tree->num_nodes(); ++node) {
    ESPALIER_CHECK(tree->Subtree(node).Validate(kLimits).ok());
  }
  Merge(*tree);
  return true;
}

}  // namespace token_tree_fuzz

FuzzTarget TokenTreeTarget() {
  return {"token_tree", token_tree_fuzz::Seeds, token_tree_fuzz::Try};
}

}  // namespace espalier::testing
