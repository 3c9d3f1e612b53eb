#include "lab/tree_json.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::lab {
namespace {

constexpr int64_t kMaxTrees = 64;  // bits of provenance
constexpr TokenTree::Limits kLimits = {
    .max_nodes = 1024,
    .max_depth = 1024,
    .vocab_size = std::numeric_limits<TokenId>::max()};

template <typename T, typename Read>
absl::StatusOr<std::vector<T>> ReadColumn(const JsonValue& tree,
                                          const std::string& name, Read read) {
  ASSIGN_OR_RETURN(const JsonValue field, tree.Member(name));
  ASSIGN_OR_RETURN(const size_t size, field.ListSize());
  std::vector<T> column;
  for (size_t i = 0; i < size; ++i) {
    ASSIGN_OR_RETURN(const auto value, read(field.At(i)));
    column.push_back(static_cast<T>(value));
  }
  return column;
}

absl::StatusOr<TokenTree> ReadTree(const JsonValue& field) {
  const auto token = [](const JsonValue& entry) {
    return entry.Integer(0, kLimits.vocab_size - 1);
  };
  const auto parent = [](const JsonValue& entry) {
    return entry.Integer(kNoParent, kLimits.max_nodes);
  };
  TokenTree tree;
  ASSIGN_OR_RETURN(tree.tokens, ReadColumn<TokenId>(field, "tokens", token));
  ASSIGN_OR_RETURN(tree.parents, ReadColumn<int32_t>(field, "parents", parent));
  ASSIGN_OR_RETURN(tree.log_probs,
                   ReadColumn<float>(field, "log_probs", ReadLogProb));
  const absl::Status valid = tree.Validate(kLimits);
  if (!valid.ok()) return field.Error(std::string(valid.message()));
  return tree;
}

}  // namespace

absl::StatusOr<std::vector<TokenTree>> ReadTrees(const JsonValue& input) {
  ASSIGN_OR_RETURN(const JsonValue field, input.Member("trees"));
  ASSIGN_OR_RETURN(const size_t size, field.ListSize());
  if (size < 1 || size > kMaxTrees) {
    return field.Error(absl::StrCat("must be 1 .. ", kMaxTrees, " trees"));
  }
  std::vector<TokenTree> trees;
  for (size_t i = 0; i < size; ++i) {
    ASSIGN_OR_RETURN(trees.emplace_back(), ReadTree(field.At(i)));
    if (trees[i].tokens[0] != trees[0].tokens[0]) {
      return field.At(i).Error("begins with another root than the first tree");
    }
  }
  return trees;
}

absl::StatusOr<double> ReadLogProb(const JsonValue& value) {
  return value.Number(-1e30, 0);
}

}  // namespace espalier::lab
