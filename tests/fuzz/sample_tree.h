#ifndef ESPALIER_TESTS_FUZZ_SAMPLE_TREE_H_
#define ESPALIER_TESTS_FUZZ_SAMPLE_TREE_H_

#include "common/speculation/token_tree.h"

namespace espalier::testing {

// Every column of a tree; tokens below 12.
inline TokenTree SampleTree(TokenId root) {
  TokenTree tree = TokenTree::RootOnly(root);
  tree.Add(0, 10, -0.5f);
  tree.Add(0, 11, -1.5f);
  tree.Add(1, 4, -2.0f);
  tree.provenance = {0, 1, 2, uint64_t{1} << 63};
  tree.samples = {{.node = 1, .distribution = 0},
                  {.node = 2},
                  {.node = 1, .distribution = 0},
                  {.node = 3, .distribution = 1}};
  tree.distributions.Add({10, 11}, {kDistributionTotal - 1, 1});
  tree.distributions.Add({4}, {kDistributionTotal},
                         SampleDependence::kWithoutReplacement);
  return tree;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_SAMPLE_TREE_H_
