#include "common/speculation/grammar_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/speculation/request_errors.h"

namespace espalier {
namespace {

// Returns the deepest nesting of brackets outside quoted parts. In every kind
// of text a backslash takes the next byte's meaning away. A regular expression
// has classes in place of quotes; EBNF has both.
int64_t DepthOf(const GrammarSpec& spec) {
  const bool has_quotes = spec.kind != GrammarSpec::Kind::kRegex;
  const bool has_classes = spec.kind == GrammarSpec::Kind::kRegex ||
                           spec.kind == GrammarSpec::Kind::kEbnf;
  int64_t depth = 0, deepest = 0;
  char closing = 0;  // of the quoted part that this is in
  for (size_t i = 0; i < spec.text.size(); ++i) {
    const char c = spec.text[i];
    if (c == '\\') {
      ++i;
    } else if (closing != 0) {
      if (c == closing) closing = 0;
    } else if (has_quotes && c == '"') {
      closing = '"';
    } else if (has_classes && c == '[') {
      closing = ']';
    } else if (c == '(' || c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// Returns the upper bound of the repetition that begins at text[i], and i
// becomes its last byte; 0: none begins there.
int64_t CountAt(absl::string_view text, size_t& i) {
  constexpr int64_t kUnbounded = 10;
  if (text[i] == '*' || text[i] == '+') return kUnbounded;
  if (text[i] != '{') return 0;
  const size_t end = text.find('}', i);
  if (end == absl::string_view::npos) return 0;
  const std::pair<absl::string_view, absl::string_view> bounds =
      absl::StrSplit(text.substr(i + 1, end - i - 1), absl::MaxSplits(',', 1));
  int64_t least = 0, most = 0;
  if (!absl::SimpleAtoi(bounds.first, &least)) return 0;
  i = end;
  if (absl::SimpleAtoi(bounds.second, &most)) return most;
  return std::max(least, text[end - 1] == ',' ? kUnbounded : 1);
}

// Returns the most repeats of a repetition within a repetition
// (kMaxNestedRepeats) in regular expressions, which a schema has in its
// strings.
int64_t NestedRepeatsOf(absl::string_view text) {
  constexpr int64_t kMany = int64_t{1} << 30;
  std::vector<int64_t> open = {1};  // the most in each group that is open
  int64_t part = 1, most = 1;       // in the part before text[i]
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') {
      open.push_back(1);
      part = 1;
    } else if (text[i] == ')') {
      part = open.back();
      if (open.size() > 1) open.pop_back();
    } else if (const int64_t count = CountAt(text, i); count > 0) {
      const bool is_nested = part > 1;
      part = std::min(kMany, part * std::min(count, kMany));
      if (is_nested) most = std::max(most, part);
    } else {
      if (text[i] == '\\') ++i;
      part = 1;
    }
    open.back() = std::max(open.back(), part);
  }
  return most;
}

absl::Status CheckChoices(absl::string_view field,
                          const std::vector<std::string>& choices) {
  const int64_t count = static_cast<int64_t>(choices.size());
  if (count < 1 || count > kMaxGrammarChoices) {
    return FieldError(field, absl::StrCat(count, " texts, must be 1 to ",
                                          kMaxGrammarChoices));
  }
  for (const std::string& choice : choices) {
    if (choice.empty()) return FieldError(field, "a text is empty");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t GrammarSpec::num_bytes() const {
  size_t bytes = text.size();
  for (const std::string& choice : choices) bytes += choice.size();
  return static_cast<int64_t>(bytes);
}

absl::string_view FieldOf(GrammarSpec::Kind kind) {
  switch (kind) {
    case GrammarSpec::Kind::kNone:
      break;
    case GrammarSpec::Kind::kJsonObject:
      return "structured_output.json_object";
    case GrammarSpec::Kind::kJsonSchema:
      return "structured_output.json_schema";
    case GrammarSpec::Kind::kRegex:
      return "structured_output.regex";
    case GrammarSpec::Kind::kChoice:
      return "structured_output.choice";
    case GrammarSpec::Kind::kEbnf:
      return "structured_output.grammar";
    case GrammarSpec::Kind::kStructuralTag:
      return "structured_output.structural_tag";
  }
  return "structured_output";
}

absl::Status ValidateGrammarSpec(const GrammarSpec& spec) {
  const absl::string_view field = FieldOf(spec.kind);
  if (spec.num_bytes() > kMaxGrammarBytes) {
    return FieldError(field, absl::StrCat(spec.num_bytes(), " bytes, limit ",
                                          kMaxGrammarBytes));
  }
  switch (spec.kind) {
    case GrammarSpec::Kind::kNone:
    case GrammarSpec::Kind::kJsonObject:
      return absl::OkStatus();
    case GrammarSpec::Kind::kChoice:
      return CheckChoices(field, spec.choices);
    default:
      break;
  }
  if (spec.text.empty()) return FieldError(field, "empty");
  if (const int64_t depth = DepthOf(spec); depth > kMaxGrammarDepth) {
    return FieldError(field, absl::StrCat("brackets nest ", depth,
                                          " deep, limit ", kMaxGrammarDepth));
  }
  if (NestedRepeatsOf(spec.text) > kMaxNestedRepeats) {
    return FieldError(
        field, absl::StrCat("a repetition within a repetition has more than ",
                            kMaxNestedRepeats, " repeats"));
  }
  return absl::OkStatus();
}

}  // namespace espalier
