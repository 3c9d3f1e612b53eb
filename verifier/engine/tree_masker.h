#ifndef ESPALIER_VERIFIER_ENGINE_TREE_MASKER_H_
#define ESPALIER_VERIFIER_ENGINE_TREE_MASKER_H_

#include <cstdint>
#include <vector>

#include "common/grammar/token_masks.h"
#include "common/speculation/endpoints.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier::verifier {

// A draft tree, and which tokens its request's grammar allows after each node.
struct MaskedTree {
  TokenTree tree;
  std::vector<int32_t> nodes =
      {};  // [nodes] their indices in the requested tree
  grammar::TokenMasks masks = {};  // [nodes]
};

// Prepares the trees of sequences with a grammar. Thread-safe.
class TreeMasker {
 public:
  struct Request {
    SequenceId sequence;
    GrammarSpec grammar;
    std::vector<TokenId> output;  // up to the tree's root, prompt excluded
    TokenTree tree;
    // Nodes that the grammar does not allow leave the tree, and its
    // distributions with them. False: all nodes stay, for rules that read
    // distributions.
    bool prunes = true;
  };

  virtual ~TreeMasker() = default;

  // `done` runs once, on another thread or before Mask returns.
  // INVALID_ARGUMENT: the grammar is malformed, a step of it takes too much
  // work (FieldErrors), or it does not allow the output. RESOURCE_EXHAUSTED:
  // too many grammars wait to be compiled. UNAVAILABLE: stopped.
  virtual void Mask(Request request, Done<MaskedTree> done) = 0;

  virtual void Forget(SequenceId sequence) = 0;

  // Answers everything that was asked. Later requests are refused.
  virtual void Stop() = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_TREE_MASKER_H_
