#ifndef ESPALIER_TESTS_VERIFIER_SMALL_TREES_H_
#define ESPALIER_TESTS_VERIFIER_SMALL_TREES_H_

#include <cstdint>
#include <functional>
#include <random>

#include "common/speculation/token_tree.h"

namespace espalier::verifier {

struct TreeBounds {
  int64_t vocab = 0;
  int64_t depth = 0;
  int64_t branching = 0;  // children of a node at most; they may repeat tokens
};

// Calls `visit` for every labelled tree within the bounds. Trees that differ
// in the order of siblings only are visited once. Returns how many there were.
int64_t ForEachTree(const TreeBounds& bounds,
                    const std::function<void(const TokenTree&)>& visit);

// Returns a random tree within the bounds, its nodes in a random topological
// order.
TokenTree RandomTree(const TreeBounds& bounds, std::mt19937_64& random);

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_SMALL_TREES_H_
