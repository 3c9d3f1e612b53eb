// Structured output: which tokens may follow a text that has to match a
// grammar. The only folder that knows the library that does it.
#ifndef ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_
#define ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/grammar/token_masks.h"
#include "common/spec/grammar_spec.h"
#include "common/spec/token_tree.h"
#include "common/spec/types.h"

namespace espalier::grammar {

// The tokens of a model as text.
struct Vocabulary {
  // [vocab_size] bytes; empty: the token is no text, so no grammar allows it.
  std::vector<std::string> tokens = {};
  std::vector<TokenId> end_tokens = {};  // of end of sequence, at least one
};

// A place in a grammar. Where no token can follow, because the grammar is at
// its end or the vocabulary lacks the bytes that it wants, exactly the tokens
// of end of sequence are allowed. For one thread at a time.
class Matcher {
 public:
  virtual ~Matcher() = default;

  // Moves to the end of this output; the cost is that of the tokens that
  // differ from the last one's. INVALID_ARGUMENT: the grammar does not allow
  // the output; the place is then the end of its longest allowed beginning.
  virtual absl::Status Follow(absl::Span<const TokenId> output) = 0;

  // [nodes] what may follow each node of a draft tree, whose root is the last
  // token of the output (or of the prompt). Nodes after a token that is not
  // allowed have no rows of their own. If this takes longer than `limit`, the
  // result has the root's row alone. Does not move. INTERNAL: the library
  // failed.
  virtual absl::StatusOr<TokenMasks> MasksOf(const TokenTree& tree,
                                             absl::Duration limit) = 0;
};

// Immutable and thread-safe.
class Grammar {
 public:
  virtual ~Grammar() = default;
  virtual std::unique_ptr<Matcher> NewMatcher() const = 0;
  virtual int64_t num_bytes() const = 0;  // of memory, nearly
};

// Makes grammars for one vocabulary. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  // May take long, and cannot be stopped. FieldErrors (request_errors.h): the
  // text is wrong, or has something that the library would not follow.
  virtual absl::StatusOr<std::shared_ptr<const Grammar>> Compile(
      const GrammarSpec& spec) const = 0;
};

// Whether this build has structured output.
bool HasBackend();
// Null: it has not.
std::unique_ptr<Backend> NewBackend(Vocabulary vocabulary);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_
