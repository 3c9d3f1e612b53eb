// The parts of SchemaGrammar.
#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_BUILDER_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_BUILDER_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/grammar/json_grammar.h"
#include "common/grammar/schema_alternatives.h"
#include "common/grammar/schema_document.h"

namespace espalier::grammar {

// Makes rules of sets of schemas that hold together: a set has one rule, so
// references may come back to it.
class SchemaBuilder {
 public:
  SchemaBuilder(SchemaDocument& document, bool compact)
      : document_(document), json_(compact) {}

  // Returns the grammar of the document.
  absl::StatusOr<RuleSet> Build();

  // The following serves the parts of the builder.
  SchemaDocument& document() { return document_; }
  JsonGrammar& json() { return json_; }
  // Returns a rule for values that are valid under all of these.
  ExpressionPtr ValueOf(const Schemas& schemas);
  // Strings that are valid under an alternative.
  absl::StatusOr<ExpressionPtr> Strings(const Schemas& alternative);

 private:
  absl::StatusOr<ExpressionPtr> Body(const Schemas& schemas);
  // Checks what holds for the whole of an alternative of `schemas`.
  absl::Status CheckWhole(const Schemas& schemas, const Schemas& alternative);
  absl::StatusOr<ExpressionPtr> Values(const Schemas& alternative);
  absl::StatusOr<ExpressionPtr> Literals(
      const Schemas& alternative, const std::vector<OrderedJson>& values);
  absl::StatusOr<ExpressionPtr> Numbers(const Schemas& alternative,
                                        bool is_integer);
  absl::StatusOr<ExpressionPtr> PatternStrings(const Schemas& alternative,
                                               int64_t least, int64_t most);

  SchemaDocument& document_;
  JsonGrammar json_;
  std::map<Schemas, int64_t> known_;
  std::deque<std::pair<Schemas, int64_t>> open_;
};

// Objects and arrays that are valid under an alternative.
absl::StatusOr<ExpressionPtr> ObjectsOf(SchemaBuilder& builder,
                                        const Schemas& alternative);
absl::StatusOr<ExpressionPtr> ArraysOf(SchemaBuilder& builder,
                                       const Schemas& alternative);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_BUILDER_H_
