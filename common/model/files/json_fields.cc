#include "common/model/files/json_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

bool IsIndex(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= static_cast<uint64_t>(JsonFields::kMaxSize);
}

}  // namespace

int64_t JsonFields::Size(const char* name, std::optional<int64_t> fallback) {
  if (!Has(name)) return Missing(name, fallback, int64_t{1});
  const Json& value = json_[name];
  if (!IsIndex(value) || value.get<int64_t>() < 1) {
    Fail(name, absl::StrCat("must be an integer in 1 .. ", kMaxSize));
    return 1;
  }
  return value.get<int64_t>();
}

double JsonFields::Positive(const char* name, std::optional<double> fallback) {
  if (!Has(name)) return Missing(name, fallback, 1.0);
  const Json& value = json_[name];
  if (!value.is_number() || !std::isfinite(value.get<double>()) ||
      value.get<double>() <= 0) {
    Fail(name, "must be a number above 0");
    return 1;
  }
  return value.get<double>();
}

bool JsonFields::Flag(const char* name, bool fallback) {
  if (!Has(name)) return fallback;
  if (!json_[name].is_boolean()) Fail(name, "must be true or false");
  return json_[name].is_boolean() && json_[name].get<bool>();
}

std::string JsonFields::Text(const char* name, const std::string& fallback) {
  if (!Has(name)) return fallback;
  if (!json_[name].is_string()) {
    Fail(name, "must be a string");
    return fallback;
  }
  return json_[name].get<std::string>();
}

std::vector<int32_t> JsonFields::Indices(const char* name) {
  if (!Has(name)) return {};
  std::vector<int32_t> indices;
  if (json_[name].is_array()) {
    for (const Json& value : json_[name]) {
      if (!IsIndex(value)) break;
      indices.push_back(value.get<int32_t>());
    }
  }
  if (!json_[name].is_array() || indices.size() != json_[name].size()) {
    Fail(name, absl::StrCat("must be a list of integers in 0 .. ", kMaxSize));
  }
  return indices;
}

JsonFields JsonFields::Object(const char* name) {
  static const Json kEmpty = Json::object();
  const std::string source = absl::StrCat(source_, ": ", name);
  if (!Has(name)) return JsonFields(kEmpty, source);
  if (json_[name].is_object()) return JsonFields(json_[name], source);
  Fail(name, "must be an object");
  return JsonFields(kEmpty, source);
}

void JsonFields::Fail(const char* name, const std::string& problem) {
  Adopt(absl::InvalidArgumentError(
      absl::StrCat(source_, ": ", name, " ", problem)));
}

void JsonFields::Unimplemented(const std::string& what) {
  Adopt(absl::UnimplementedError(
      absl::StrCat(source_, ": ", what, " is not implemented")));
}

void JsonFields::Adopt(const absl::Status& nested) { status_.Update(nested); }

}  // namespace espalier
