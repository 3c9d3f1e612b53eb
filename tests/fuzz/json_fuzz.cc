#include "common/json/json_fields.h"
#include "common/json/parse_json.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace json_fuzz {

// Reads every value as every type.
void Visit(const JsonValue& value) {
  (void)value.Integer();
  (void)value.Number(-1, 1);
  (void)value.Text();
  (void)value.Bool();
  if (const auto items = value.Items(); items.ok()) {
    for (const JsonValue& item : *items) Visit(item);
  }
  if (const auto names = value.MemberNames(); names.ok()) {
    for (const std::string& name : *names) {
      if (value.Has(name)) Visit(*value.Member(name));
    }
  }
}

std::vector<std::string> Seeds() {
  return {R"({"a": 1, "b": [0, -1.5e3, true, null, "\u00e9\n"], "c": {}})",
          R"({"size": 16777216, "positive": 1e-6, "flag": false,
              "text": "x", "indices": [0, 3], "object": {"size": 0}})",
          "[[[[1]]]]", "\"\xf0\x9f\x98\x80\""};
}

bool Try(std::string_view bytes) {
  const auto json = ParseJson(bytes, "file");
  if (!json.ok()) return false;
  Visit(JsonValue(*json, "file"));
  JsonFields fields(*json, "file");
  (void)fields.Size("size", 1);
  (void)fields.Positive("positive", 1.0);
  (void)fields.Flag("flag", false);
  (void)fields.Text("text", "");
  (void)fields.Indices("indices");
  JsonFields nested = fields.Object("object");
  (void)nested.Size("size");
  fields.Adopt(nested.status());
  return true;
}

}  // namespace json_fuzz

FuzzTarget JsonTarget() { return {"json", json_fuzz::Seeds, json_fuzz::Try}; }

}  // namespace espalier::testing
