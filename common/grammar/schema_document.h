#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_DOCUMENT_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_DOCUMENT_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/grammar/json_grammar.h"
#include "common/grammar/regex.h"

namespace espalier::grammar {

// A JSON schema that is well-formed, and of which every keyword can be
// followed, wherever it stands; what cannot be is refused when it is made.
// (What keywords cannot do together is found later.) Keywords that only
// describe (title, default, ...), and unknown ones, have no meaning. Schemas in
// it are known by their addresses. Not thread-safe.
class SchemaDocument {
 public:
  using Json = OrderedJson;

  // INVALID_ARGUMENT with the path: "properties.a.not: is not supported".
  static absl::StatusOr<std::unique_ptr<SchemaDocument>> Parse(
      absl::string_view text);

  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  const Json& root() const { return root_; }
  // Returns what a schema of this document refers to by $ref.
  const Json& Target(const Json& schema) const;
  // Returns the regular expression of `pattern`, or of a name in
  // patternProperties.
  const Regex& RegexOf(const std::string& pattern) const;
  // Returns a schema that stands for a keyword of `schema`, without references;
  // the same one for an equal `stands`.
  const Json& Add(const Json& schema, absl::string_view keyword, Json stands);

  // INVALID_ARGUMENT at a keyword of a schema of this document.
  absl::Status Error(const Json& schema, absl::string_view keyword,
                     absl::string_view problem) const;

 private:
  explicit SchemaDocument(Json root) : root_(std::move(root)) {}

  absl::Status Check(const Json& schema, const std::string& path);
  absl::Status CheckKeyword(const Json& schema, const std::string& keyword,
                            const Json& value, const std::string& path);
  absl::Status CheckMembers(const Json& members, const std::string& path);
  absl::Status CheckList(const Json& list, const std::string& path);
  absl::Status CheckDependencies(const Json& value, const std::string& path);
  absl::Status CheckReference(const Json& schema, const Json& value,
                              const std::string& path);
  absl::Status CheckPattern(const std::string& pattern,
                            const std::string& path);
  void FindAnchors(const Json& value);
  // Null: there is nothing.
  const Json* Find(absl::string_view reference) const;

  const Json root_;
  std::deque<Json> added_;
  std::map<std::pair<const Json*, std::string>, const Json*> added_to_;
  absl::flat_hash_map<const Json*, std::string> paths_;
  absl::flat_hash_map<const Json*, const Json*> targets_;
  std::map<std::string, const Json*> anchors_;
  std::map<std::string, Regex> regexes_;
};

// Returns the member, or null.
const OrderedJson* Member(const OrderedJson& object, absl::string_view name);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_DOCUMENT_H_
