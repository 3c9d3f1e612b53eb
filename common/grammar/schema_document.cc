#include "common/grammar/schema_document.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/grammar/number_range.h"
#include "common/grammar/string_formats.h"
#include "common/json/ordered_json.h"
#include "common/json/parse_json.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;
using Names = absl::flat_hash_set<absl::string_view>;

constexpr double kMaxCount = 1e9;

// Constraints that are not followed.
const Names& RefusedKeywords() {
  static const Names names = {"not",         "if",          "then",
                              "else",        "contains",    "minContains",
                              "maxContains", "$dynamicRef", "$recursiveRef",
                              "divisibleBy", "disallow",    "extends"};
  return names;
}

const Names& CountKeywords() {
  static const Names names = {"minLength", "maxLength",     "minItems",
                              "maxItems",  "minProperties", "maxProperties"};
  return names;
}

const Names& NumberKeywords() {
  static const Names names = {"minimum", "maximum", "exclusiveMinimum",
                              "exclusiveMaximum", "multipleOf"};
  return names;
}

const Names& SchemaKeywords() {
  static const Names names = {"additionalProperties", "additionalItems",
                              "propertyNames"};
  return names;
}

const Names& SchemaMapKeywords() {
  static const Names names = {"properties", "patternProperties", "$defs",
                              "definitions", "dependentSchemas"};
  return names;
}

const Names& SchemaListKeywords() {
  static const Names names = {"anyOf", "oneOf", "allOf", "prefixItems"};
  return names;
}

absl::Status Refusal(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, path.empty() ? "" : ": ", problem));
}

std::string Under(const std::string& path, absl::string_view name) {
  const std::string shown = Printable(name, /*max_bytes=*/100);
  return absl::StrCat(path, path.empty() ? "" : ".", shown);
}

absl::Status CheckCount(const Json& value, const std::string& path) {
  if (value.is_number()) {
    const double count = value.get<double>();
    if (count >= 0 && count <= kMaxCount && count == std::floor(count)) {
      return absl::OkStatus();
    }
  }
  return Refusal(path, "must be an integer of 0 to 10^9");
}

absl::Status CheckNumber(const Json& value, const std::string& path,
                         bool is_positive) {
  if (!value.is_number()) return Refusal(path, "must be a number");
  if (is_positive && value.get<double>() <= 0) {
    return Refusal(path, "must be above 0");
  }
  if (!ParseDecimal(ToText(value))) return Refusal(path, "has too many digits");
  return absl::OkStatus();
}

absl::Status CheckType(const Json& value, const std::string& path) {
  static const Names types = {"null",   "boolean", "object", "array",
                              "number", "string",  "integer"};
  if (value.is_array() ? value.empty() : !value.is_string()) {
    return Refusal(path, "must be a type, or a list of types");
  }
  for (const Json& type : value.is_array() ? value : Json{value}) {
    if (!type.is_string() ||
        !types.contains(type.get_ref<const std::string&>())) {
      return Refusal(path,
                     "must be null, boolean, object, array, number, string, "
                     "integer, or a list of these");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const Json& value, const std::string& path) {
  bool are_names = value.is_array();
  for (const Json& name : value) are_names = are_names && name.is_string();
  if (!are_names) return Refusal(path, "must be a list of names");
  return absl::OkStatus();
}

// Checks that a literal's text is read as the schema says it: no number may
// have lost digits.
absl::Status CheckLiteral(const Json& value, const std::string& path) {
  if (value.is_number_float() && std::abs(value.get<double>()) >= 0x1p53) {
    return Refusal(path, "a number from 2^53 on must be a 64-bit integer");
  }
  if (!value.is_structured()) return absl::OkStatus();
  for (const Json& part : value) {
    RETURN_IF_ERROR(CheckLiteral(part, path));
  }
  return absl::OkStatus();
}

absl::Status CheckUnevaluated(const Json& value, const std::string& path) {
  if (value.is_boolean()) return absl::OkStatus();
  return Refusal(path, "is supported as true or false only");
}

}  // namespace

const Json* Member(const Json& object, absl::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() ? nullptr : &*found;
}

absl::StatusOr<std::unique_ptr<SchemaDocument>> SchemaDocument::Parse(
    absl::string_view text) {
  // Which checks the depth and the keys; it does not keep their order.
  RETURN_IF_ERROR(ParseJson({text.data(), text.size()}, "").status());
  std::unique_ptr<SchemaDocument> document(
      new SchemaDocument(ReadOrderedJson({text.data(), text.size()})));
  document->FindAnchors(document->root_);
  RETURN_IF_ERROR(document->Check(document->root_, ""));
  return document;
}

const Json& SchemaDocument::Target(const Json& schema) const {
  return *targets_.at(&schema);
}

const Regex& SchemaDocument::RegexOf(const std::string& pattern) const {
  return regexes_.at(pattern);
}

const Json& SchemaDocument::Add(const Json& schema, absl::string_view keyword,
                                Json stands) {
  const Json*& known = added_to_[{&schema, ToText(stands)}];
  if (known == nullptr) {
    known = &added_.emplace_back(std::move(stands));
    paths_[known] = Under(paths_.at(&schema), keyword);
  }
  return *known;
}

absl::Status SchemaDocument::Error(const Json& schema,
                                   absl::string_view keyword,
                                   absl::string_view problem) const {
  const auto path = paths_.find(&schema);
  return Refusal(Under(path == paths_.end() ? "" : path->second, keyword),
                 problem);
}

absl::Status SchemaDocument::Check(const Json& schema,
                                   const std::string& path) {
  if (!paths_.emplace(&schema, path).second) return absl::OkStatus();
  if (schema.is_boolean()) return absl::OkStatus();
  if (!schema.is_object()) {
    return Refusal(path, "must be an object or a Boolean value");
  }
  for (const auto& [keyword, value] : schema.items()) {
    RETURN_IF_ERROR(CheckKeyword(schema, keyword, value, Under(path, keyword)));
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::CheckKeyword(const Json& schema,
                                          const std::string& keyword,
                                          const Json& value,
                                          const std::string& path) {
  if (RefusedKeywords().contains(keyword))
    return Refusal(path, "is not supported");
  if (CountKeywords().contains(keyword)) return CheckCount(value, path);
  if (NumberKeywords().contains(keyword)) {
    return CheckNumber(value, path, keyword == "multipleOf");
  }
  if (SchemaKeywords().contains(keyword)) return Check(value, path);
  if (SchemaMapKeywords().contains(keyword)) {
    RETURN_IF_ERROR(CheckMembers(value, path));
    if (keyword != "patternProperties") return absl::OkStatus();
    for (const auto& [pattern, unused] : value.items()) {
      RETURN_IF_ERROR(CheckPattern(pattern, path));
    }
    return absl::OkStatus();
  }
  if (SchemaListKeywords().contains(keyword)) return CheckList(value, path);
  if (keyword == "items") {
    return value.is_array() ? CheckList(value, path) : Check(value, path);
  }
  if (keyword == "unevaluatedProperties" || keyword == "unevaluatedItems") {
    return CheckUnevaluated(value, path);
  }
  if (keyword == "type") return CheckType(value, path);
  if (keyword == "required") return CheckNames(value, path);
  if (keyword == "dependentRequired" || keyword == "dependencies") {
    return CheckDependencies(value, path);
  }
  if (keyword == "const") return CheckLiteral(value, path);
  if (keyword == "enum") {
    if (!value.is_array() || value.empty()) {
      return Refusal(path, "must be a list of values");
    }
    return CheckLiteral(value, path);
  }
  if (keyword == "uniqueItems") {
    if (!value.is_boolean()) return Refusal(path, "must be true or false");
    const Json* most = Member(schema, "maxItems");
    if (!value.get<bool>() || (most != nullptr && *most <= 1)) {
      return absl::OkStatus();
    }
    return Refusal(path, "is not supported");
  }
  if (keyword == "pattern") {
    if (!value.is_string()) return Refusal(path, "must be a text");
    return CheckPattern(value.get<std::string>(), path);
  }
  if (keyword == "format") {
    if (!value.is_string()) return Refusal(path, "must be a text");
    if (IsKnownFormat(value.get<std::string>())) return absl::OkStatus();
    return Refusal(path,
                   absl::StrCat("\"", Printable(value.get<std::string>(), 64),
                                "\" is not supported"));
  }
  if (keyword == "$ref") return CheckReference(schema, value, path);
  if ((keyword == "$id" || keyword == "id") && value.is_string() &&
      &schema != &root_ && !absl::StartsWith(value.get<std::string>(), "#")) {
    return Refusal(path, "is supported at the root only");
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::CheckMembers(const Json& members,
                                          const std::string& path) {
  if (!members.is_object()) return Refusal(path, "must be an object");
  for (const auto& [name, schema] : members.items()) {
    RETURN_IF_ERROR(Check(schema, Under(path, name)));
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::CheckList(const Json& list,
                                       const std::string& path) {
  if (!list.is_array() || list.empty()) {
    return Refusal(path, "must be a list of schemas");
  }
  for (size_t i = 0; i < list.size(); ++i) {
    RETURN_IF_ERROR(Check(list[i], absl::StrCat(path, "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::CheckDependencies(const Json& value,
                                               const std::string& path) {
  if (!value.is_object()) return Refusal(path, "must be an object");
  for (const auto& [name, needed] : value.items()) {
    const std::string below = Under(path, name);
    RETURN_IF_ERROR(needed.is_array() ? CheckNames(needed, below)
                                      : Check(needed, below));
  }
  return absl::OkStatus();
}

absl::Status SchemaDocument::CheckReference(const Json& schema,
                                            const Json& value,
                                            const std::string& path) {
  if (!value.is_string()) return Refusal(path, "must be a text");
  const std::string& reference = value.get_ref<const std::string&>();
  const std::string shown = Printable(reference, /*max_bytes=*/100);
  if (!absl::StartsWith(reference, "#")) {
    return Refusal(path,
                   absl::StrCat("\"", shown,
                                "\" is elsewhere: only references within the "
                                "schema are supported (#/...)"));
  }
  const Json* target = Find(absl::string_view(reference).substr(1));
  if (target == nullptr) {
    return Refusal(path, absl::StrCat("\"", shown, "\" is not in the schema"));
  }
  targets_[&schema] = target;
  return Check(*target, reference);
}

absl::Status SchemaDocument::CheckPattern(const std::string& pattern,
                                          const std::string& path) {
  if (regexes_.contains(pattern)) return absl::OkStatus();
  auto regex = ParseRegex(pattern, RegexClasses::kCommon);
  if (!regex.ok()) {
    return Refusal(path, absl::StrCat("\"", Printable(pattern, 100),
                                      "\": ", regex.status().message()));
  }
  if (AutomatonOf(*regex->whole) >= kMaxAutomaton) {
    return Refusal(
        path, absl::StrCat("its automaton would have more than ", kMaxAutomaton,
                           " states: repeat less, or nest less"));
  }
  regexes_.emplace(pattern, *std::move(regex));
  return absl::OkStatus();
}

void SchemaDocument::FindAnchors(const Json& value) {
  for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
    const Json* anchor = Member(value, keyword);
    if (anchor != nullptr && anchor->is_string()) {
      anchors_.emplace(anchor->get<std::string>(), &value);
    }
  }
  if (!value.is_structured()) return;
  for (const Json& part : value) FindAnchors(part);
}

const Json* SchemaDocument::Find(absl::string_view reference) const {
  if (reference.empty()) return &root_;
  if (reference[0] != '/') {
    const auto anchor = anchors_.find(std::string(reference));
    return anchor == anchors_.end() ? nullptr : anchor->second;
  }
  std::string decoded;
  for (size_t i = 0; i < reference.size(); ++i) {
    uint32_t byte = 0;
    if (reference[i] == '%' && i + 2 < reference.size() &&
        absl::SimpleHexAtoi(reference.substr(i + 1, 2), &byte)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += reference[i];
    }
  }
  const Json* at = &root_;
  const std::vector<std::string> names =
      absl::StrSplit(absl::string_view(decoded).substr(1), '/');
  for (std::string name : names) {
    for (size_t i = 0; (i = name.find('~', i)) != std::string::npos; ++i) {
      const std::string_view escape = std::string_view(name).substr(i, 2);
      if (escape != "~0" && escape != "~1") return nullptr;
      name.replace(i, 2, escape == "~0" ? "~" : "/");
    }
    size_t index = 0;
    if (at->is_array() && absl::SimpleAtoi(name, &index) &&
        index < at->size()) {
      at = &(*at)[index];
    } else {
      at = Member(*at, name);
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

}  // namespace espalier::grammar
