#include "common/json/json_value.h"

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxShownPath = 500;  // bytes

// `value` as an integer of 64 bits with a sign; false: it is none.
bool IsInteger(const Json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() &&
           value.get<uint64_t>() >
               static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
}

}  // namespace

const Json* JsonValue::Find(std::string_view name) const {
  if (!value_->is_object()) return nullptr;
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

JsonValue JsonValue::WithMember(std::string_view name,
                                const Json& value) const {
  std::string path = path_;
  if (!path.empty()) path += ".";
  path += name;
  return JsonValue(value, source_, std::move(path));
}

bool JsonValue::Has(std::string_view name) const {
  return Find(name) != nullptr;
}

absl::StatusOr<JsonValue> JsonValue::Member(std::string_view name) const {
  if (!value_->is_object()) return WrongType("an object");
  const Json* member = Find(name);
  if (member == nullptr) return MemberError(name, "is missing");
  return WithMember(name, *member);
}

absl::StatusOr<std::vector<std::string>> JsonValue::MemberNames() const {
  if (!value_->is_object()) return WrongType("an object");
  std::vector<std::string> names;
  names.reserve(value_->size());
  for (const auto& [name, value] : value_->items()) names.push_back(name);
  return names;
}

absl::StatusOr<bool> JsonValue::BoolOr(std::string_view name,
                                       bool fallback) const {
  const Json* member = Find(name);
  if (member == nullptr) return fallback;
  return WithMember(name, *member).Bool();
}

absl::StatusOr<std::string> JsonValue::TextOr(std::string_view name,
                                              std::string fallback) const {
  const Json* member = Find(name);
  if (member == nullptr) return fallback;
  return WithMember(name, *member).Text();
}

absl::StatusOr<size_t> JsonValue::ListSize() const {
  if (!value_->is_array()) return WrongType("a list");
  return value_->size();
}

absl::Status JsonValue::ExpectListOf(size_t size) const {
  if (!value_->is_array() || value_->size() != size) {
    return Error(absl::StrCat("must be a list of ", size));
  }
  return absl::OkStatus();
}

JsonValue JsonValue::At(size_t index) const {
  return JsonValue((*value_)[index], source_,
                   absl::StrCat(path_, "[", index, "]"));
}

absl::StatusOr<std::vector<JsonValue>> JsonValue::Items() const {
  ASSIGN_OR_RETURN(const size_t size, ListSize());
  std::vector<JsonValue> items;
  items.reserve(size);
  for (size_t i = 0; i < size; ++i) items.push_back(At(i));
  return items;
}

absl::StatusOr<int64_t> JsonValue::Integer(int64_t min, int64_t max) const {
  if (!value_->is_number()) return WrongType("an integer");
  const bool fits = IsInteger(*value_);
  if (!fits || value_->get<int64_t>() < min || value_->get<int64_t>() > max) {
    return Error(absl::StrCat("must be an integer of ", min, " .. ", max,
                              ", but is ", value_->dump()));
  }
  return value_->get<int64_t>();
}

absl::StatusOr<double> JsonValue::Number(double min, double max) const {
  if (!value_->is_number() || !(value_->get<double>() >= min) ||
      !(value_->get<double>() <= max)) {
    return Error(absl::StrCat("must be a number of ", min, " .. ", max));
  }
  return value_->get<double>();
}

absl::StatusOr<std::string> JsonValue::Text() const {
  if (!value_->is_string()) return WrongType("a string");
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonValue::Bool() const {
  if (!value_->is_boolean()) return WrongType("true or false");
  return value_->get<bool>();
}

std::string JsonValue::source() const {
  const std::string path = Printable(path_, kMaxShownPath);
  if (source_.empty()) return path.empty() ? "the document" : path;
  return path.empty() ? source_ : absl::StrCat(source_, ": ", path);
}

absl::Status JsonValue::Error(const std::string& problem) const {
  return absl::InvalidArgumentError(absl::StrCat(source(), ": ", problem));
}

absl::Status JsonValue::MemberError(std::string_view name,
                                    const std::string& problem) const {
  return WithMember(name, *value_).Error(problem);
}

absl::Status JsonValue::WrongType(const std::string& expected) const {
  return Error(absl::StrCat("must be ", expected, ", but is of type ",
                            value_->type_name()));
}

}  // namespace espalier
