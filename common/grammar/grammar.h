// Structured output: which tokens may follow a text that has to match a
// grammar. The only folder that knows the library that does it.
#ifndef ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_
#define ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/grammar/token_masks.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"

namespace espalier::grammar {

// The tokens of a model as text.
struct Vocabulary {
  // [vocab_size] bytes; empty: the token is no text, so no grammar allows it.
  std::vector<std::string> tokens = {};
  std::vector<TokenId> end_tokens = {};  // of end of sequence, at least one
};

// The most work of a step: an output goes on by a token, or the mask after it
// is computed. (Steps of WorkBudget.) Ambiguous grammars take ever more of it.
inline constexpr int64_t kMaxStepWork = 20'000'000;

// A place in a grammar. Where no token can follow, because the grammar is at
// its end or the vocabulary lacks the bytes that it wants, exactly the tokens
// of end of sequence are allowed. For one thread at a time.
//
// RESOURCE_EXHAUSTED of any of these: a step takes more work than kMaxStepWork,
// which depends on the output alone. The place is then that of no output.
// CANCELLED: it was stopped.
class Matcher {
 public:
  virtual ~Matcher() = default;

  // Moves to the end of this output; the cost is that of the tokens that
  // differ from the last one's. INVALID_ARGUMENT: the grammar does not allow
  // the output; the place is then the end of its longest allowed beginning.
  virtual absl::Status Follow(absl::Span<const TokenId> output) = 0;

  // [nodes] what may follow each node of a draft tree, whose root is the last
  // token of the output (or of the prompt). Nodes after a token that is not
  // allowed have no rows of their own. If this takes longer than `limit`, or
  // the nodes after the root take too much work, the result has the root's row
  // alone; an infinite limit gets all rows or an error. Does not move.
  // INTERNAL: the library failed.
  virtual absl::StatusOr<TokenMasks> MasksOf(const TokenTree& tree,
                                             absl::Duration limit) = 0;
};

// Immutable and thread-safe.
class Grammar {
 public:
  virtual ~Grammar() = default;
  // Once `stop` is true, the matcher does nothing more; null: never.
  virtual std::unique_ptr<Matcher> NewMatcher(
      const std::atomic<bool>* stop = nullptr) const = 0;
  virtual int64_t num_bytes() const = 0;  // of memory, nearly
};

// Makes grammars for one vocabulary. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  struct CompileLimit {
    int64_t work = 200'000'000;  // in units of WorkBudget
    const std::atomic<bool>* stop = nullptr;
  };
  // FieldErrors (request_errors.h): the text is wrong, or has a part that is
  // not supported. RESOURCE_EXHAUSTED: it takes more work. CANCELLED: it was
  // stopped.
  virtual absl::StatusOr<std::shared_ptr<const Grammar>> Compile(
      const GrammarSpec& spec, const CompileLimit& limit) const = 0;
};

// Returns whether this build has structured output.
bool HasBackend();
// Null: it has not.
std::unique_ptr<Backend> NewBackend(Vocabulary vocabulary);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_GRAMMAR_H_
