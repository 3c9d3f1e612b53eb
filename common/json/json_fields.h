#ifndef ESPALIER_COMMON_JSON_JSON_FIELDS_H_
#define ESPALIER_COMMON_JSON_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/json/json_value.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Reads typed fields of one untrusted JSON object. The first error sticks, so
// that a parser reads all fields and checks status() once. A field that is null
// counts as absent.
class JsonFields {
 public:
  static constexpr int64_t kMaxSize = int64_t{1} << 24;

  // `source` names the object in errors. `json` must outlive this.
  JsonFields(const nlohmann::json& json, std::string source)
      : object_(json, std::move(source)) {}

  bool Has(std::string_view name) const { return object_.Has(name); }

  // 1 .. kMaxSize. Without a fallback the field is required.
  int64_t Size(std::string_view name, std::optional<int64_t> fallback = {});
  // Finite and above 0.
  double Positive(std::string_view name, std::optional<double> fallback = {});
  bool Flag(std::string_view name, bool fallback);
  std::string Text(std::string_view name, const std::string& fallback);
  // Returns a list of 0 .. kMaxSize; empty if the field is absent.
  std::vector<int32_t> Indices(std::string_view name);

  // Returns the nested object, or an empty one. Its reader keeps its own
  // errors: Adopt them.
  JsonFields Object(std::string_view name);

  // INVALID_ARGUMENT: "<source>: <name>: <problem>"
  void Fail(std::string_view name, const std::string& problem);
  void Unimplemented(const std::string& what);
  // Takes over the first error of a reader of a nested object.
  void Adopt(const absl::Status& nested);

  const nlohmann::json& json() const { return object_.json(); }
  const absl::Status& status() const { return status_; }

 private:
  explicit JsonFields(JsonValue object) : object_(std::move(object)) {}

  // Returns the value; `dummy` on an error, which is kept.
  template <typename T>
  T Take(absl::StatusOr<T> value, T dummy) {
    if (!value.ok()) Adopt(value.status());
    return value.ok() ? *std::move(value) : std::move(dummy);
  }

  JsonValue object_;
  absl::Status status_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_JSON_JSON_FIELDS_H_
