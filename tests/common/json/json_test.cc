#include "nlohmann/json.hpp"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/json/json_fields.h"
#include "common/json/json_value.h"
#include "common/json/parse_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& value) {
  return ErrorOf(value.status());
}

std::string Nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJson, LimitsTheDepthBeforeItParses) {
  EXPECT_TRUE(ParseJson(Nested(64), "f").ok());
  EXPECT_EQ(ErrorOf(ParseJson(Nested(65), "f")),
            "f: nested deeper than 64 levels");
  EXPECT_EQ(ErrorOf(ParseJson(std::string(10'000'000, '{'), "")),
            "nested deeper than 64 levels");
  EXPECT_TRUE(ParseJson("\"" + std::string(100, '[') + "\\\"[\"", "").ok());
}

TEST(ParseJson, NamesAKeyThatIsThereTwice) {
  EXPECT_EQ(
      ErrorOf(ParseJson(R"({"a": {"b": 1}, "c": [{"d": 1, "d": 2}]})", "f")),
      "f: key \"d\" is there twice");
  EXPECT_TRUE(
      ParseJson(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "f").ok());
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "nul", "{} {}", "1e999", "\"\xff\"", "}"}) {
    EXPECT_THAT(ErrorOf(ParseJson(text, "f")), HasSubstr("f: not valid JSON"))
        << text;
  }
  EXPECT_EQ(ErrorOf(ParseJsonObject("[]", "f")), "f: must be a JSON object");
}

TEST(JsonValue, NamesSourceAndPath) {
  const auto json = nlohmann::json::parse(
      R"({"a": {"b": [1, "x", 3000000000]}, "n": null, "u":
          18446744073709551615})");
  const JsonValue root(json, "f.json");
  EXPECT_EQ(ErrorOf(root.Member("x")), "f.json: x: is missing");
  EXPECT_EQ(ErrorOf(root.Member("n")), "f.json: n: is missing");
  EXPECT_FALSE(root.Has("n"));
  const JsonValue list = *root.Member("a")->Member("b");
  EXPECT_EQ(ErrorOf(list.At(1).Integer()),
            "f.json: a.b[1]: must be an integer, but is of type string");
  EXPECT_EQ(ErrorOf(list.At(2).Integer(0, 9)),
            "f.json: a.b[2]: must be an integer of 0 .. 9, but is 3000000000");
  EXPECT_EQ(*list.At(2).Integer(), 3000000000);
  EXPECT_THAT(ErrorOf(root.Member("u")->Integer()),
              HasSubstr("18446744073709551615"));
  EXPECT_EQ(ErrorOf(list.Member("c")),
            "f.json: a.b: must be an object, but is of type array");
  EXPECT_EQ(ErrorOf(list.ExpectListOf(2)), "f.json: a.b: must be a list of 2");
  EXPECT_EQ(ErrorOf(JsonValue(json).ListSize()),
            "the document: must be a list, but is of type object");
  EXPECT_THAT(*root.MemberNames(), ElementsAre("a", "n", "u"));
}

TEST(JsonValue, ShowsNamesFromOutsideSafely) {
  const nlohmann::json json = {{"\x1b[2J", 1}};
  EXPECT_THAT(ErrorOf(JsonValue(json).Member("\x1b[2J")->Text()),
              HasSubstr("\\x1b[2J: must be a string"));
  const nlohmann::json longer = {{std::string(100'000, 'x'), 1}};
  EXPECT_LT(ErrorOf(JsonValue(longer).Member(std::string(100'000, 'x'))->Text())
                .size(),
            1000u);
}

TEST(JsonFields, KeepTheFirstError) {
  const nlohmann::json json = {{"size", 0}, {"flag", 1}, {"in", {{"x", "y"}}}};
  JsonFields fields(json, "f");
  JsonFields nested = fields.Object("in");
  EXPECT_EQ(nested.Positive("x"), 1.0);
  EXPECT_EQ(ErrorOf(nested.status()), "f: in.x: must be a number above 0");
  EXPECT_EQ(fields.Object("none").Size("x", 7), 7);
  EXPECT_TRUE(fields.status().ok());
  EXPECT_EQ(fields.Size("size"), 1);
  fields.Flag("flag", true);
  fields.Adopt(nested.status());
  EXPECT_EQ(ErrorOf(fields.status()),
            absl::StrCat("f: size: must be an integer of 1 .. ",
                         JsonFields::kMaxSize, ", but is 0"));
}

}  // namespace
}  // namespace espalier
