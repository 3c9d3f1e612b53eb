#include "common/grammar/schema_keywords.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::grammar {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& schema) {
  const absl::Status status = CheckSchemaKeywords(schema);
  return status.ok() ? "" : std::string(status.message());
}

TEST(SchemaKeywords, FollowedOnesPass) {
  EXPECT_EQ(Refusal("true"), "");
  EXPECT_EQ(Refusal("{}"), "");
  EXPECT_EQ(Refusal(R"({
    "$schema": "x", "title": "t", "$defs": {"word": {"type": "string"}},
    "type": "object", "required": ["a"], "additionalProperties": false,
    "properties": {
      "a": {"$ref": "#/$defs/word", "description": "d"},
      "b": {"type": "string", "enum": ["x", "y"], "default": "x"},
      "c": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]},
      "d": {"type": "array", "items": {"const": 1}, "uniqueItems": false}}})"),
            "");
}

// A property may have a keyword's name.
TEST(SchemaKeywords, NamesOfPropertiesAreNoKeywords) {
  EXPECT_EQ(Refusal(R"({"properties": {"not": {"type": "null"}}})"), "");
  EXPECT_EQ(Refusal(R"({"enum": [{"contains": 1}]})"), "");
}

TEST(SchemaKeywords, IgnoredOnesAreRefusedWithTheirPath) {
  EXPECT_THAT(Refusal(R"({"not": {}})"), HasSubstr("not: is not supported"));
  EXPECT_THAT(
      Refusal(R"({"properties": {"a": {"items": {"contains": true}}}})"),
      HasSubstr("properties.a.items.contains: is not supported"));
  EXPECT_THAT(Refusal(R"({"anyOf": [{}, {"uniqueItems": true}]})"),
              HasSubstr("anyOf[1].uniqueItems: is not supported"));
  EXPECT_THAT(Refusal(R"({"$defs": {"a": {"if": true}}})"),
              HasSubstr("$defs.a.if: is not supported"));
}

TEST(SchemaKeywords, ConstraintsBesideAnExclusiveOneAreRefused) {
  EXPECT_THAT(Refusal(R"({"anyOf": [{}], "properties": {}})"),
              HasSubstr("properties: is not supported beside anyOf"));
  EXPECT_THAT(Refusal(R"({"$ref": "#", "type": "object"})"),
              HasSubstr("type: is not supported beside $ref"));
  EXPECT_THAT(Refusal(R"({"oneOf": [{}], "allOf": [{}]})"),
              HasSubstr("allOf: is not supported beside oneOf"));
}

TEST(SchemaKeywords, WhatIsNoSchemaIsRefused) {
  EXPECT_NE(Refusal("{"), "");
  EXPECT_NE(Refusal("[]"), "");
  EXPECT_NE(Refusal(R"({"properties": 3})"), "");
  EXPECT_NE(Refusal(R"({"items": "x"})"), "");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  EXPECT_NE(Refusal(deep), "");
}

}  // namespace
}  // namespace espalier::grammar
