// Texts of clients that become grammars: whatever they say, they are refused by
// name, or followed, and some token may follow at every place. What takes too
// much work is stopped.
#include "common/base/check.h"
#include "common/grammar/grammar.h"
#include "common/speculation/request_errors.h"
#include "tests/common/grammar/test_vocabulary.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace grammar_fuzz {

using Kind = GrammarSpec::Kind;
constexpr Kind kKinds[] = {Kind::kJsonSchema, Kind::kRegex, Kind::kChoice,
                           Kind::kEbnf, Kind::kStructuralTag};
constexpr size_t kMaxBytes = 1024;

// The first byte says what the rest is.
std::vector<std::string> Seeds() {
  return {
      R"(0{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer","minimum":-3,"maximum":40}},"b":{"enum":["x",1,null]}},"required":["a"],"additionalProperties":false})",
      R"(0{"$defs":{"n":{"anyOf":[{"type":"string","pattern":"^[a-c]{2,3}$"},{"type":"number"}]}},"$ref":"#/$defs/n"})",
      R"(1(\d{1,3}\.){3}[^a-z\n]+|x*?\u00e9)",
      R"(0{"allOf":[{"properties":{"a":{"type":"string","maxLength":3}}},{"patternProperties":{"^b.$":{"multipleOf":3}}}],"minProperties":1,"dependencies":{"a":["b"]}})",
      R"(0{"oneOf":[{"required":["a"],"properties":{"a":{"const":"x"}}},{"required":["a"],"properties":{"a":{"const":"y"}}}],"propertyNames":{"minLength":1}})",
      R"(0{"prefixItems":[{"format":"date"},{"exclusiveMinimum":0.25}],"items":{"$ref":"#"},"minItems":1})",
      "2yes",
      "3root ::= (a | \"x\"{2,4})* [^b-d]\na ::= \"(\" root? \")\" # text\n",
      R"(4{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"type":"tag","begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"boolean"}},"end":"</f>"}]}})"};
}

bool Try(std::string_view bytes) {
  static const auto backend = grammar::NewBackend(grammar::ByteVocabulary());
  if (bytes.empty() || bytes.size() > kMaxBytes) return false;
  GrammarSpec spec = {
      .kind = kKinds[static_cast<uint8_t>(bytes[0] - '0') % std::size(kKinds)]};
  (spec.kind == Kind::kChoice ? spec.choices.emplace_back() : spec.text) =
      bytes.substr(1);
  const auto compiled = backend->Compile(spec, {.work = 5'000'000});
  if (absl::IsResourceExhausted(compiled.status())) return false;
  if (!compiled.ok()) {
    ESPALIER_CHECK(FieldOf(compiled.status()) == FieldOf(spec.kind));
    return false;
  }
  const auto matcher = (*compiled)->NewMatcher();
  std::vector<TokenId> output;
  for (uint8_t chosen : bytes.substr(0, 24)) {
    const absl::Status followed = matcher->Follow(output);
    if (absl::IsResourceExhausted(followed)) return true;
    ESPALIER_CHECK(followed.ok());
    const auto mask =
        matcher->MasksOf(TokenTree::RootOnly(0), absl::InfiniteDuration());
    if (absl::IsResourceExhausted(mask.status())) return true;
    ESPALIER_CHECK(mask.ok());
    const std::vector<TokenId> allowed = mask->Allowed(0);
    ESPALIER_CHECK(!allowed.empty());
    output.push_back(allowed[chosen % allowed.size()]);
  }
  return true;
}

}  // namespace grammar_fuzz

FuzzTarget GrammarTarget() {
  return {"grammar", grammar_fuzz::Seeds, grammar_fuzz::Try};
}

}  // namespace espalier::testing
