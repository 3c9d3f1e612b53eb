#ifndef ESPALIER_COMMON_SPECULATION_GRAMMAR_SPEC_H_
#define ESPALIER_COMMON_SPECULATION_GRAMMAR_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace espalier {

// Describes what the whole output of a request has to match. It travels as it
// was written; the state within it is a function of the output's tokens.
struct GrammarSpec {
  enum class Kind {
    kNone,
    kJsonObject,     // any JSON object
    kJsonSchema,     // `text` is a JSON schema
    kRegex,          // `text` is a regular expression
    kChoice,         // one of `choices`
    kEbnf,           // `text` is a grammar whose first rule is `root`
    kStructuralTag,  // `text` is xgrammar's structural tag, as JSON
  };
  Kind kind = Kind::kNone;
  std::string text = {};
  std::vector<std::string> choices = {};
  // Is true if JSON is in one line, with a space after each colon and comma.
  // Else there may be a blank, or a line end and an indentation, between
  // tokens.
  bool compact = false;

  bool any() const { return kind != Kind::kNone; }
  int64_t num_bytes() const;  // of text and choices
  friend bool operator==(const GrammarSpec&, const GrammarSpec&) = default;
};

// Texts from clients are untrusted, and what compiles them recurses.
inline constexpr int64_t kMaxGrammarBytes = 64 << 10;
inline constexpr int64_t kMaxGrammarChoices = 1024;
inline constexpr int64_t kMaxGrammarDepth = 64;  // of brackets
// The most repeats of a repetition within a repetition (the product of how
// often; * and + count as 10). "([a-z]*){1,100}" takes 5 s to compile, and more
// repeats take far longer.
inline constexpr int64_t kMaxNestedRepeats = 1000;

// Name of the API's field for a kind, e.g. "structured_output.regex".
absl::string_view FieldOf(GrammarSpec::Kind kind);

// Returns a FieldError (request_errors.h) that names the field of the API and
// its limit. Whether the text means anything is for its compiler to say.
absl::Status ValidateGrammarSpec(const GrammarSpec& spec);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_GRAMMAR_SPEC_H_
