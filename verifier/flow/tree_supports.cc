#include "verifier/flow/tree_supports.h"

#include "verifier/flow/flow_tree.h"
#include "verifier/flow/merge_duplicates.h"

namespace espalier::verifier {

RowSupports TreeSupports(const TokenTree& tree) {
  const MergedDuplicates merged = MergeDuplicates(tree);
  FlowTree flow_tree;
  flow_tree.Build(merged.tree);
  RowSupports supports;
  for (int32_t node : merged.into) supports.Add(flow_tree.support(node));
  return supports;
}

}  // namespace espalier::verifier
