#ifndef ESPALIER_COMMON_MODEL_FILES_JSON_FIELDS_H_
#define ESPALIER_COMMON_MODEL_FILES_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
      : json_(json), source_(std::move(source)) {}

  bool Has(const char* name) const {
    return json_.contains(name) && !json_[name].is_null();
  }

  // 1 .. kMaxSize. Without a fallback the field is required.
  int64_t Size(const char* name, std::optional<int64_t> fallback = {});
  // Finite and above 0.
  double Positive(const char* name, std::optional<double> fallback = {});
  bool Flag(const char* name, bool fallback);
  std::string Text(const char* name, const std::string& fallback);
  // A list of 0 .. kMaxSize; empty if the field is absent.
  std::vector<int32_t> Indices(const char* name);

  // The nested object, or an empty one. Its reader keeps its own errors: Adopt
  // them.
  JsonFields Object(const char* name);

  // "<source>: <name> <problem>"
  void Fail(const char* name, const std::string& problem);
  void Unimplemented(const std::string& what);
  // Takes over the first error of a reader of a nested object.
  void Adopt(const absl::Status& nested);

  const nlohmann::json& json() const { return json_; }
  const std::string& source() const { return source_; }
  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  T Missing(const char* name, std::optional<T> fallback, T dummy) {
    if (!fallback.has_value()) Fail(name, "is missing");
    return fallback.value_or(dummy);
  }

  const nlohmann::json& json_;
  std::string source_;
  absl::Status status_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_JSON_FIELDS_H_
