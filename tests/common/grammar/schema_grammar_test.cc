// Which schemas are followed, and what is said of others. That texts are valid
// is for schema_samples_test.py.
#include "common/grammar/schema_grammar.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::grammar {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& schema) {
  const absl::Status status = SchemaGrammar(schema, false).status();
  return status.ok() ? "" : std::string(status.message());
}

TEST(SchemaGrammar, FollowedOnes) {
  for (const char* schema :
       {"true", "{}", R"({"$schema": "x", "title": "t", "$id": "http://x/y",
          "$defs": {"word": {"type": "string"}, "other": {"$anchor": "o"}},
          "properties": {
            "a": {"$ref": "#/$defs/word", "minLength": 2},
            "b": {"type": "string", "enum": ["x", "y"], "default": "x"},
            "c": {"anyOf": [{"type": "null"}, {"minimum": 3}], "type":
                  ["null", "integer"]},
            "d": {"items": {"const": 1}, "uniqueItems": false},
            "e": {"$ref": "#o"}, "f": {"items": [{}, {}],
            "additionalItems": false}}, "required": ["a", "z"]})",
        R"({"allOf": [{"required": ["a"]}, {"properties": {"a": {}}}],
            "x-unknown": {"not": 3}})",
        R"({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]},
                      {"properties": {"k": {"const": 2}}, "required": ["k"]}],
            "type": "object"})",
        R"({"type": "object", "properties":
            {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["next"]})",
        R"({"properties": {"not": {"type": "null"}}})",
        R"({"enum": [{"contains": 1}]})",
        R"({"dependentRequired": {"a": ["b"]}, "minProperties": 1})"}) {
    EXPECT_EQ(Refusal(schema), "") << schema;
  }
}

TEST(SchemaGrammar, WhatIsNotFollowedIsRefusedWithItsPath) {
  for (const auto& [schema, why] :
       std::vector<std::pair<std::string, std::string>>{
           {R"({"not": {}})", "not: is not supported"},
           {R"({"properties": {"a": {"items": {"contains": true}}}})",
            "properties.a.items.contains: is not supported"},
           {R"({"anyOf": [{}, {"uniqueItems": true}]})",
            "anyOf[1].uniqueItems: is not supported"},
           {R"({"$defs": {"a": {"if": true}}})", "$defs.a.if: is not"},
           {R"({"$ref": "#/c/A", "c": {"A": {"contains": {}}}})",
            "#/c/A.contains: is not supported"},
           {R"({"$dynamicRef": "#a"})", "$dynamicRef: is not supported"},
           {R"({"items": {"$id": "x"}})", "items.$id: is supported at the"},
           {R"({"$ref": "other.json"})", "$ref: \"other.json\" is elsewhere"},
           {R"({"$ref": "#/a~2b"})", "$ref: \"#/a~2b\" is not in the schema"},
           {R"({"type": "number", "multipleOf": 0.1})", "multipleOf: "},
           {R"({"type": "integer", "multipleOf": 77})", "multipleOf: above"},
           {R"x({"pattern": "(?=a)"})x", "pattern: \"(?=a)\": "},
           {R"({"pattern": "a", "format": "date"})", "pattern: is not"},
           {R"({"pattern": "^a+b+$", "maxLength": 9})", "maxLength: is not"},
           {R"({"format": "nonsense"})", "format: \"nonsense\""},
           {R"({"exclusiveMinimum": true})", "exclusiveMinimum: must be"},
           {R"({"minLength": -1})", "minLength: must be"},
           {R"({"minProperties": 3, "additionalProperties": {}})",
            "minProperties: above 1"},
           {R"({"oneOf": [{"type": "string"}, {"maxLength": 3}]})",
            "oneOf: a value may be valid under part 1 and another"},
           {R"({"type": ["string", "object"], "oneOf": [{"properties":
               {"a": {}}}, {"type": "string"}]})",
            "oneOf: a value may be valid under part 1 and another"},
           {R"({"allOf": [{"properties": {"a": {}}},
               {"properties": {"b": {}}, "unevaluatedProperties": false}]})",
            "unevaluatedProperties: is supported only"},
           {R"({"patternProperties": {"a": {}, "b": {"type": "null"}}})",
            "patternProperties: is supported with one"},
           {R"({"unevaluatedItems": {"type": "null"}})", "unevaluatedItems: "},
           {R"({"const": 123456789012345678901234567890})", "const: a number"},
           {R"({"type": "nothing"})", "type: must be"}}) {
    EXPECT_THAT(Refusal(schema), HasSubstr(why)) << schema;
  }
}

TEST(SchemaGrammar, WhatNothingIsValidUnderIsRefused) {
  for (const char* schema :
       {"false", R"({"allOf": [{"type": "null"}, {"const": 1}]})",
        R"({"$ref": "#"})", R"({"anyOf": [{"$ref": "#"}]})",
        R"({"minimum": 3, "maximum": 2})",
        R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
        R"({"properties": {"a": false}, "required": ["a"]})",
        R"({"additionalProperties": false, "required": ["a"]})",
        R"({"type": "array", "items": false, "minItems": 1})",
        R"({"enum": ["a"], "minLength": 2})"}) {
    EXPECT_THAT(Refusal(schema), HasSubstr("no value is valid")) << schema;
  }
}

TEST(SchemaGrammar, WhatIsNoSchemaIsRefused) {
  for (const char* schema :
       {"{", "[]", "3", R"({"properties": 3})", R"({"items": "x"})",
        R"({"a": 1, "a": 2})", R"({"anyOf": []})", R"({"enum": []})",
        R"({"required": "a"})", R"({"pattern": 3})"}) {
    EXPECT_NE(Refusal(schema), "") << schema;
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  EXPECT_NE(Refusal(deep), "");
}

// 2^20 ways to be valid.
TEST(SchemaGrammar, WaysAreBounded) {
  std::string schema = R"({"allOf": [)";
  for (int i = 0; i < 20; ++i) {
    schema += R"({"anyOf": [{"required": ["a)" + std::to_string(i) +
              R"("]}, {"required": ["b)" + std::to_string(i) + "\"]}]},";
  }
  schema.back() = ']';
  EXPECT_THAT(Refusal(schema + "}"), HasSubstr("more than 256 ways"));
}

}  // namespace
}  // namespace espalier::grammar
