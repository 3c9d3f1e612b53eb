#include "coordinator/local/lab/json_fields.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::local {

absl::StatusOr<JsonField> JsonField::Object(const Json& input) {
  if (!input.is_object()) {
    return absl::InvalidArgumentError("the input must be one JSON object");
  }
  return JsonField(input, "");
}

absl::StatusOr<JsonField> JsonField::Member(const std::string& name) const {
  const auto found = value_->find(name);
  if (!value_->is_object() || found == value_->end()) {
    return Error(absl::StrCat("needs \"", name, "\""));
  }
  return JsonField(*found,
                   name_.empty() ? name : absl::StrCat(name_, ".", name));
}

bool JsonField::HasMember(const std::string& name) const {
  return value_->contains(name);
}

absl::StatusOr<std::vector<std::string>> JsonField::MemberNames() const {
  if (!value_->is_object()) return Error("must be an object");
  std::vector<std::string> names;
  for (const auto& [name, value] : value_->items()) names.push_back(name);
  return names;
}

absl::StatusOr<size_t> JsonField::ListSize() const {
  if (!value_->is_array()) return Error("must be a list");
  return value_->size();
}

absl::Status JsonField::ExpectListOf(size_t size) const {
  if (!value_->is_array() || value_->size() != size) {
    return Error(absl::StrCat("must be a list of ", size));
  }
  return absl::OkStatus();
}

JsonField JsonField::At(size_t index) const {
  return JsonField((*value_)[index], absl::StrCat(name_, "[", index, "]"));
}

absl::StatusOr<int64_t> JsonField::Integer(int64_t min, int64_t max) const {
  const bool fits =
      value_->is_number_integer() &&
      !(value_->is_number_unsigned() &&
        value_->get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits || value_->get<int64_t>() < min || value_->get<int64_t>() > max) {
    return Error(absl::StrCat("must be an integer of ", min, " .. ", max));
  }
  return value_->get<int64_t>();
}

absl::StatusOr<double> JsonField::Number(double min, double max) const {
  if (!value_->is_number() || !(value_->get<double>() >= min) ||
      !(value_->get<double>() <= max)) {
    return Error(absl::StrCat("must be a number of ", min, " .. ", max));
  }
  return value_->get<double>();
}

absl::StatusOr<std::string> JsonField::Text() const {
  if (!value_->is_string()) return Error("must be a string");
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonField::Bool() const {
  if (!value_->is_boolean()) return Error("must be true or false");
  return value_->get<bool>();
}

absl::Status JsonField::Error(const std::string& problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_.empty() ? "the input" : name_, ": ", problem));
}

}  // namespace espalier::local
