// Reads the input of an experiment. Every error is INVALID_ARGUMENT and names
// the field, as "marginals[2][0]".
#ifndef ESPALIER_COORDINATOR_LOCAL_LAB_JSON_FIELDS_H_
#define ESPALIER_COORDINATOR_LOCAL_LAB_JSON_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier::local {

using Json = nlohmann::ordered_json;

// A value and its path in the input. The value must outlive it.
class JsonField {
 public:
  // The input itself.
  static absl::StatusOr<JsonField> Object(const Json& input);

  absl::StatusOr<JsonField> Member(const std::string& name) const;
  bool HasMember(const std::string& name) const;
  absl::StatusOr<std::vector<std::string>> MemberNames() const;

  // Size of a list.
  absl::StatusOr<size_t> ListSize() const;
  absl::Status ExpectListOf(size_t size) const;
  JsonField At(size_t index) const;  // REQUIRES: index < *ListSize()

  absl::StatusOr<int64_t> Integer(int64_t min, int64_t max) const;
  absl::StatusOr<double> Number(double min, double max) const;
  // -1e30 .. 0, so that sums over a tree stay finite.
  absl::StatusOr<double> LogProb() const { return Number(-1e30, 0); }
  absl::StatusOr<std::string> Text() const;
  absl::StatusOr<bool> Bool() const;

  absl::Status Error(const std::string& problem) const;

 private:
  JsonField(const Json& value, std::string name)
      : value_(&value), name_(std::move(name)) {}

  const Json* value_;
  std::string name_;  // empty: the input itself
};

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_LAB_JSON_FIELDS_H_
