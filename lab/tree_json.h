#ifndef ESPALIER_LAB_TREE_JSON_H_
#define ESPALIER_LAB_TREE_JSON_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/json/json_value.h"
#include "common/speculation/token_tree.h"

namespace espalier::lab {

// The input's "trees": [{"tokens": [..], "parents": [..], "log_probs": [..]},
// ..], 1 .. 64 valid trees of at most 1024 nodes that begin with the same root.
absl::StatusOr<std::vector<TokenTree>> ReadTrees(const JsonValue& input);

// -1e30 .. 0, so that sums over a tree stay finite.
absl::StatusOr<double> ReadLogProb(const JsonValue& value);

}  // namespace espalier::lab

#endif  // ESPALIER_LAB_TREE_JSON_H_
