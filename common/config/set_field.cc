#include "common/config/set_field.h"

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace espalier {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Error(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

template <typename T>
absl::StatusOr<T> ParseInteger(absl::string_view path, absl::string_view text) {
  T value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  return Error(
      path, absl::StrCat("\"", text, "\" is not an integer of ", 8 * sizeof(T),
                         " bits", std::is_unsigned_v<T> ? ", 0 or more" : ""));
}

absl::StatusOr<double> ParseNumber(absl::string_view path,
                                   absl::string_view text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value)) return value;
  return Error(path, absl::StrCat("\"", text, "\" is not a finite number"));
}

absl::StatusOr<bool> ParseBool(absl::string_view path, absl::string_view text) {
  bool value = false;
  if (absl::SimpleAtob(text, &value)) return value;
  return Error(path, absl::StrCat("\"", text, "\" is neither true nor false"));
}

absl::StatusOr<const EnumValueDescriptor*> ParseEnum(
    absl::string_view path, absl::string_view text,
    const EnumDescriptor& type) {
  if (const auto* value = type.FindValueByName(std::string(text))) return value;
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  return Error(path, absl::StrCat("unknown value \"", text,
                                  "\"; known: ", absl::StrJoin(names, ", ")));
}

// Parses a text into a scalar field, or appends it to a list.
class Slot {
 public:
  Slot(Message& message, const FieldDescriptor& field)
      : message_(message), field_(field) {}

  absl::Status Set(absl::string_view path, absl::string_view text) {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Put(ParseInteger<int32_t>(path, text), &Reflection::SetInt32,
                   &Reflection::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Put(ParseInteger<int64_t>(path, text), &Reflection::SetInt64,
                   &Reflection::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put(ParseInteger<uint32_t>(path, text), &Reflection::SetUInt32,
                   &Reflection::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put(ParseInteger<uint64_t>(path, text), &Reflection::SetUInt64,
                   &Reflection::AddUInt64);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put(ParseNumber(path, text), &Reflection::SetDouble,
                   &Reflection::AddDouble);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put(ParseNumber(path, text), &Reflection::SetFloat,
                   &Reflection::AddFloat);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put(ParseBool(path, text), &Reflection::SetBool,
                   &Reflection::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Put(ParseEnum(path, text, *field_.enum_type()),
                   &Reflection::SetEnum, &Reflection::AddEnum);
      case FieldDescriptor::CPPTYPE_STRING:
        return Put(absl::StatusOr<std::string>(text), &Reflection::SetString,
                   &Reflection::AddString);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
    return Error(path, absl::StrCat("is a group of fields; set one of: ",
                                    FieldNames(*field_.message_type())));
  }

 private:
  template <typename T, typename Argument>
  absl::Status Put(absl::StatusOr<T> value,
                   void (Reflection::*set)(Message*, const FieldDescriptor*,
                                           Argument) const,
                   void (Reflection::*add)(Message*, const FieldDescriptor*,
                                           Argument) const) {
    RETURN_IF_ERROR(value.status());
    const Reflection& reflection = *message_.GetReflection();
    (reflection.*(field_.is_repeated() ? add : set))(
        &message_, &field_, static_cast<Argument>(*std::move(value)));
    return absl::OkStatus();
  }

  Message& message_;
  const FieldDescriptor& field_;
};

// Walks down one path, a part at a time.
class PathSetter {
 public:
  PathSetter(absl::string_view path, absl::string_view value)
      : path_(path), value_(value), parts_(absl::StrSplit(path, '.')) {}

  absl::Status SetIn(Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    const FieldDescriptor* field =
        next_ < parts_.size() ? type.FindFieldByName(parts_[next_]) : nullptr;
    if (field == nullptr) {
      return Error(path_, absl::StrCat(next_ < parts_.size()
                                           ? absl::StrCat("unknown field \"",
                                                          parts_[next_], "\"")
                                           : "names no single field",
                                       "; known: ", FieldNames(type)));
    }
    ++next_;
    if (field->is_map()) return SetMapEntry(message, *field);
    if (field->is_repeated()) return SetInList(message, *field);
    if (next_ == parts_.size()) return Slot(message, *field).Set(path_, value_);
    RETURN_IF_ERROR(RequireGroup(*field));
    return SetIn(*message.GetReflection()->MutableMessage(&message, field));
  }

 private:
  absl::Status RequireGroup(const FieldDescriptor& field) const {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return absl::OkStatus();
    }
    return Error(path_, absl::StrCat("\"", field.name(),
                                     "\" is a single value without fields"));
  }

  // The rest of the path is the key, which may itself have dots.
  absl::Status SetMapEntry(Message& message, const FieldDescriptor& field) {
    if (next_ == parts_.size()) {
      return Error(path_, absl::StrCat("is a map; set ", path_, ".KEY"));
    }
    const Reflection& reflection = *message.GetReflection();
    const std::string key = absl::StrJoin(
        parts_.begin() + static_cast<int64_t>(next_), parts_.end(), ".");
    const Descriptor& entry_type = *field.message_type();
    // If a key has two entries, the later one wins when the message is
    // normalised.
    Message* entry = reflection.AddMessage(&message, &field);
    absl::Status status = Slot(*entry, *entry_type.map_key()).Set(path_, key);
    if (status.ok()) {
      status = Slot(*entry, *entry_type.map_value()).Set(path_, value_);
    }
    if (!status.ok()) reflection.RemoveLast(&message, &field);
    return status;
  }

  absl::Status SetInList(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    if (next_ == parts_.size()) {
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        reflection.ClearField(&message, &field);
      }
      return Slot(message, field).Set(path_, value_);
    }
    const int size = reflection.FieldSize(message, &field);
    int index = 0;
    if (!absl::SimpleAtoi(parts_[next_], &index) || index < 0 || index > size) {
      return Error(path_, absl::StrCat("index \"", parts_[next_],
                                       "\" is not in 0 .. ", size));
    }
    ++next_;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return SetIn(index == size ? *reflection.AddMessage(&message, &field)
                                 : *reflection.MutableRepeatedMessage(
                                       &message, &field, index));
    }
    if (next_ != parts_.size()) return RequireGroup(field);
    RETURN_IF_ERROR(Slot(message, field).Set(path_, value_));
    if (index < size) {  // it was appended: move it into place
      reflection.SwapElements(&message, &field, index, size);
      reflection.RemoveLast(&message, &field);
    }
    return absl::OkStatus();
  }

  absl::string_view path_;
  absl::string_view value_;
  std::vector<std::string> parts_;
  size_t next_ = 0;
};

}  // namespace

std::string FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

absl::Status SetField(absl::string_view path, absl::string_view value,
                      Message& message) {
  return PathSetter(path, value).SetIn(message);
}

}  // namespace espalier
