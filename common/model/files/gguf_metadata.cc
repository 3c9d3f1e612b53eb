#include "common/model/files/gguf_metadata.h"

#include <bit>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint32_t kMinAlignment = 8;
constexpr uint32_t kDefaultAlignment = 32;  // the format's
constexpr uint64_t kMaxKeyBytes = 65535;    // the format's limit
// The least bytes of an entry: no count is believed that the file cannot hold.
constexpr uint64_t kMinStringBytes = 8;        // the length
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;  // key, type, value

enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

absl::Status CheckBools(absl::Span<const std::byte> bytes) {
  for (std::byte byte : bytes) {
    if (std::to_integer<int>(byte) > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a bool is ", std::to_integer<int>(byte), ", not 0 or 1"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<GgufValue> ReadScalar(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const auto bytes, cursor.Bytes(sizeof(T), "value"));
  if constexpr (std::is_same_v<T, bool>) RETURN_IF_ERROR(CheckBools(bytes));
  const T value = GgufNumbers<T>(bytes)[0];
  if constexpr (std::is_same_v<T, bool>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return value;
    return static_cast<int64_t>(value);
  } else {
    return static_cast<int64_t>(value);
  }
}

template <typename T>
absl::StatusOr<GgufValue> ReadNumbers(GgufCursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(cursor.CheckCount(count, sizeof(T), "array length"));
  ASSIGN_OR_RETURN(const auto bytes, cursor.Bytes(count * sizeof(T), "array"));
  if constexpr (std::is_same_v<T, bool>) RETURN_IF_ERROR(CheckBools(bytes));
  return GgufNumbers<T>(bytes);
}

absl::StatusOr<GgufValue> ReadStrings(GgufCursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(cursor.CheckCount(count, kMinStringBytes, "array length"));
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(strings.emplace_back(), cursor.String("array element"));
  }
  return strings;
}

// Calls `read(T())` with the C++ type of a number or bool.
template <typename Read>
absl::StatusOr<GgufValue> WithNumberType(uint32_t type, const char* field,
                                         Read read) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kUint8:
      return read(uint8_t());
    case ValueType::kInt8:
      return read(int8_t());
    case ValueType::kUint16:
      return read(uint16_t());
    case ValueType::kInt16:
      return read(int16_t());
    case ValueType::kUint32:
      return read(uint32_t());
    case ValueType::kInt32:
      return read(int32_t());
    case ValueType::kFloat32:
      return read(float());
    case ValueType::kBool:
      return read(bool());
    case ValueType::kUint64:
      return read(uint64_t());
    case ValueType::kInt64:
      return read(int64_t());
    case ValueType::kFloat64:
      return read(double());
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(field, " ", type, " is not supported"));
  }
}

absl::StatusOr<GgufValue> ReadArray(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("array type"));
  ASSIGN_OR_RETURN(const auto count, cursor.Number<uint64_t>("array length"));
  if (type == static_cast<uint32_t>(ValueType::kString)) {
    return ReadStrings(cursor, count);
  }
  return WithNumberType(type, "array type", [&](auto number) {
    return ReadNumbers<decltype(number)>(cursor, count);
  });
}

absl::StatusOr<GgufValue> ReadValue(GgufCursor& cursor, uint32_t type) {
  if (type == static_cast<uint32_t>(ValueType::kArray)) {
    return ReadArray(cursor);
  }
  if (type == static_cast<uint32_t>(ValueType::kString)) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.String("value"));
    return text;
  }
  return WithNumberType(type, "value type", [&](auto number) {
    return ReadScalar<decltype(number)>(cursor);
  });
}

// Reads a value of the metadata; the alignment has to be a uint32.
absl::StatusOr<GgufValue> ReadTypedValue(GgufCursor& cursor,
                                         std::string_view key) {
  ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("value type"));
  if (key == kAlignmentKey &&
      type != static_cast<uint32_t>(ValueType::kUint32)) {
    return absl::InvalidArgumentError("is not a uint32");
  }
  return ReadValue(cursor, type);
}

}  // namespace

absl::StatusOr<GgufMetadata> ReadGgufMetadata(GgufCursor& cursor,
                                              uint64_t count) {
  RETURN_IF_ERROR(cursor.CheckCount(count, kMinPairBytes, "metadata count"));
  GgufMetadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view key,
                     cursor.Name(kMaxKeyBytes, "metadata key"));
    absl::StatusOr<GgufValue> value = ReadTypedValue(cursor, key);
    if (!value.ok()) return NamedGgufError("metadata key", key, value.status());
    if (!metadata.emplace(key, *std::move(value)).second) {
      return NamedGgufError("metadata key", key,
                            absl::InvalidArgumentError("is there twice"));
    }
  }
  return metadata;
}

absl::StatusOr<uint32_t> GgufAlignment(const GgufMetadata& metadata) {
  auto found = metadata.find(kAlignmentKey);
  if (found == metadata.end()) return kDefaultAlignment;
  const auto alignment =
      static_cast<uint32_t>(std::get<int64_t>(found->second));
  if (alignment < kMinAlignment || !std::has_single_bit(alignment)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(kAlignmentKey), " is ", alignment,
                     ", not a power of two of at least ", kMinAlignment));
  }
  return alignment;
}

}  // namespace espalier
