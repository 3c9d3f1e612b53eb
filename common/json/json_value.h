#ifndef ESPALIER_COMMON_JSON_JSON_VALUE_H_
#define ESPALIER_COMMON_JSON_JSON_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// A value of an untrusted JSON document, and its path in it. A field that is
// null counts as absent. Every error is INVALID_ARGUMENT and names the source
// and the path: "config.json: rope_scaling.factor: is missing",
// "trees[0].tokens[2]: must be a list". The document must outlive it.
class JsonValue {
 public:
  // The document itself. `source` names it in errors; may be empty.
  explicit JsonValue(const nlohmann::json& document, std::string source = "")
      : value_(&document), source_(std::move(source)) {}

  // Read an object.
  bool Has(std::string_view name) const;
  absl::StatusOr<JsonValue> Member(std::string_view name) const;
  absl::StatusOr<std::vector<std::string>> MemberNames() const;  // sorted
  // Return a member of an object, or the fallback if it is absent.
  absl::StatusOr<bool> BoolOr(std::string_view name, bool fallback) const;
  absl::StatusOr<std::string> TextOr(std::string_view name,
                                     std::string fallback) const;

  // Read a list.
  absl::StatusOr<size_t> ListSize() const;
  absl::Status ExpectListOf(size_t size) const;
  JsonValue At(size_t index) const;  // REQUIRES: index < *ListSize()
  absl::StatusOr<std::vector<JsonValue>> Items() const;

  absl::StatusOr<int64_t> Integer(
      int64_t min = std::numeric_limits<int64_t>::min(),
      int64_t max = std::numeric_limits<int64_t>::max()) const;
  absl::StatusOr<double> Number(double min, double max) const;
  absl::StatusOr<std::string> Text() const;
  absl::StatusOr<bool> Bool() const;

  absl::Status Error(const std::string& problem) const;
  // Returns an error of the member `name`, which need not be there.
  absl::Status MemberError(std::string_view name,
                           const std::string& problem) const;

  // `value` in place of the member `name`, which need not be there.
  JsonValue WithMember(std::string_view name,
                       const nlohmann::json& value) const;

  const nlohmann::json& json() const { return *value_; }
  std::string source() const;  // with the path

 private:
  JsonValue(const nlohmann::json& value, std::string source, std::string path)
      : value_(&value), source_(std::move(source)), path_(std::move(path)) {}

  // Null: there is no such member.
  const nlohmann::json* Find(std::string_view name) const;
  absl::Status WrongType(const std::string& expected) const;

  const nlohmann::json* value_;
  std::string source_;
  std::string path_;  // empty: the document itself
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_JSON_JSON_VALUE_H_
