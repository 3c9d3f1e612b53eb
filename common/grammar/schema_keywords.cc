#include "common/grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"

namespace espalier::grammar {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 9> kIgnored = {"not",
                                                      "if",
                                                      "then",
                                                      "else",
                                                      "dependentRequired",
                                                      "dependentSchemas",
                                                      "contains",
                                                      "minContains",
                                                      "maxContains"};

// The compiler follows the first of these that a schema has, and nothing else
// of that schema.
constexpr std::array<std::string_view, 6> kExclusive = {
    "$ref", "const", "enum", "anyOf", "oneOf", "allOf"};

// Of the other keywords, those that an answer could break.
constexpr std::array<std::string_view, 24> kConstraints = {
    "type",
    "properties",
    "required",
    "patternProperties",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum"};

// Keywords whose value is a schema, has schemas as its members, or a list of
// them.
constexpr std::array<std::string_view, 6> kWithSchema = {
    "items",         "additionalProperties",  "unevaluatedItems",
    "propertyNames", "unevaluatedProperties", "contains"};
constexpr std::array<std::string_view, 4> kWithMembers = {
    "properties", "patternProperties", "$defs", "definitions"};
constexpr std::array<std::string_view, 4> kWithList = {"anyOf", "oneOf",
                                                       "allOf", "prefixItems"};

absl::Status Check(const JsonValue& schema);

absl::Status CheckExclusive(const JsonValue& schema) {
  const auto followed =
      std::find_if(kExclusive.begin(), kExclusive.end(),
                   [&](std::string_view name) { return schema.Has(name); });
  if (followed == kExclusive.end()) return absl::OkStatus();
  const bool lists_values = *followed == "const" || *followed == "enum";
  const auto refuse = [&](std::string_view name) {
    return schema.MemberError(
        name, "is not supported beside " + std::string(*followed));
  };
  for (auto other = followed + 1; other != kExclusive.end(); ++other) {
    if (schema.Has(*other)) return refuse(*other);
  }
  for (std::string_view name : kConstraints) {
    if (name == "type" && lists_values) continue;
    if (schema.Has(name)) return refuse(name);
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const JsonValue& schema) {
  for (std::string_view name : kWithSchema) {
    if (!schema.Has(name)) continue;
    ASSIGN_OR_RETURN(const JsonValue part, schema.Member(name));
    RETURN_IF_ERROR(Check(part));
  }
  for (std::string_view name : kWithMembers) {
    if (!schema.Has(name)) continue;
    ASSIGN_OR_RETURN(const JsonValue parts, schema.Member(name));
    ASSIGN_OR_RETURN(const auto members, parts.MemberNames());
    for (const std::string& member : members) {
      ASSIGN_OR_RETURN(const JsonValue part, parts.Member(member));
      RETURN_IF_ERROR(Check(part));
    }
  }
  for (std::string_view name : kWithList) {
    if (!schema.Has(name)) continue;
    ASSIGN_OR_RETURN(const JsonValue list, schema.Member(name));
    ASSIGN_OR_RETURN(const auto parts, list.Items());
    for (const JsonValue& part : parts) RETURN_IF_ERROR(Check(part));
  }
  return absl::OkStatus();
}

absl::Status Check(const JsonValue& schema) {
  if (schema.json().is_boolean()) return absl::OkStatus();
  if (!schema.json().is_object()) {
    return schema.Error("must be an object or a Boolean value");
  }
  for (std::string_view name : kIgnored) {
    if (schema.Has(name)) {
      return schema.MemberError(name, "is not supported");
    }
  }
  ASSIGN_OR_RETURN(const bool unique, schema.BoolOr("uniqueItems", false));
  if (unique) return schema.MemberError("uniqueItems", "is not supported");
  RETURN_IF_ERROR(CheckExclusive(schema));
  return CheckParts(schema);
}

}  // namespace

absl::Status CheckSchemaKeywords(absl::string_view schema) {
  ASSIGN_OR_RETURN(const Json json,
                   ParseJson({schema.data(), schema.size()}, ""));
  return Check(JsonValue(json));
}

}  // namespace espalier::grammar
