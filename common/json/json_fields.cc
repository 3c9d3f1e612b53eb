#include "common/json/json_fields.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

absl::StatusOr<int64_t> ReadSize(const JsonValue& object,
                                 std::string_view name) {
  ASSIGN_OR_RETURN(const JsonValue value, object.Member(name));
  return value.Integer(1, JsonFields::kMaxSize);
}

absl::StatusOr<double> ReadPositive(const JsonValue& object,
                                    std::string_view name) {
  ASSIGN_OR_RETURN(const JsonValue value, object.Member(name));
  if (value
          .Number(std::numeric_limits<double>::denorm_min(),
                  std::numeric_limits<double>::max())
          .ok()) {
    return value.json().get<double>();
  }
  return value.Error("must be a number above 0");
}

absl::StatusOr<std::vector<int32_t>> ReadIndices(const JsonValue& list) {
  std::vector<int32_t> indices;
  ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.Items());
  for (const JsonValue& item : items) {
    ASSIGN_OR_RETURN(indices.emplace_back(),
                     item.Integer(0, JsonFields::kMaxSize));
  }
  return indices;
}

}  // namespace

int64_t JsonFields::Size(std::string_view name,
                         std::optional<int64_t> fallback) {
  if (!Has(name) && fallback.has_value()) return *fallback;
  return Take(ReadSize(object_, name), int64_t{1});
}

double JsonFields::Positive(std::string_view name,
                            std::optional<double> fallback) {
  if (!Has(name) && fallback.has_value()) return *fallback;
  return Take(ReadPositive(object_, name), 1.0);
}

bool JsonFields::Flag(std::string_view name, bool fallback) {
  return Take(object_.BoolOr(name, fallback), false);
}

std::string JsonFields::Text(std::string_view name,
                             const std::string& fallback) {
  return Take(object_.TextOr(name, fallback), fallback);
}

std::vector<int32_t> JsonFields::Indices(std::string_view name) {
  if (!Has(name)) return {};
  return Take(ReadIndices(*object_.Member(name)), {});
}

JsonFields JsonFields::Object(std::string_view name) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  if (Has(name)) {
    JsonValue nested = *object_.Member(name);
    if (nested.json().is_object()) return JsonFields(std::move(nested));
    Fail(name, "must be an object");
  }
  return JsonFields(object_.WithMember(name, kEmpty));
}

void JsonFields::Fail(std::string_view name, const std::string& problem) {
  Adopt(object_.MemberError(name, problem));
}

void JsonFields::Unimplemented(const std::string& what) {
  Adopt(absl::UnimplementedError(
      absl::StrCat(object_.source(), ": ", what, " is not implemented")));
}

void JsonFields::Adopt(const absl::Status& nested) { status_.Update(nested); }

}  // namespace espalier
