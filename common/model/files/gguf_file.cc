#include "common/model/files/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/model/files/gguf_path.h"

namespace espalier {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's limit
constexpr uint64_t kMaxNameBytes = 64;    // the format's limit
constexpr uint32_t kMaxDims = 4;          // the format's limit
constexpr uint32_t kMinAlignment = 8;
// The least bytes of an entry: no count is believed that the file cannot hold.
constexpr uint64_t kMinStringBytes = 8;                   // the length
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;             // key, type, value
constexpr uint64_t kMinTensorEntryBytes = 8 + 4 + 4 + 8;  // of no dimensions

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

struct TensorTypeRow {
  GgufTensorType type;
  const char* name;
  int64_t values;
  int64_t bytes;
};
constexpr std::array<TensorTypeRow, 11> kTensorTypes = {{
    {GgufTensorType::kF32, "F32", 1, 4},
    {GgufTensorType::kF16, "F16", 1, 2},
    {GgufTensorType::kBF16, "BF16", 1, 2},
    {GgufTensorType::kQ4_0, "Q4_0", 32, 18},
    {GgufTensorType::kQ4_1, "Q4_1", 32, 20},
    {GgufTensorType::kQ5_0, "Q5_0", 32, 22},
    {GgufTensorType::kQ5_1, "Q5_1", 32, 24},
    {GgufTensorType::kQ8_0, "Q8_0", 32, 34},
    {GgufTensorType::kQ4_K, "Q4_K", 256, 144},
    {GgufTensorType::kQ5_K, "Q5_K", 256, 176},
    {GgufTensorType::kQ6_K, "Q6_K", 256, 210},
}};

// nullptr: the file has a type that this reader does not know.
const TensorTypeRow* FindRow(uint32_t type) {
  for (const TensorTypeRow& row : kTensorTypes) {
    if (static_cast<uint32_t>(row.type) == type) return &row;
  }
  return nullptr;
}

const TensorTypeRow& RowOf(GgufTensorType type) {
  const TensorTypeRow* row = FindRow(static_cast<uint32_t>(type));
  ESPALIER_CHECK(row != nullptr);
  return *row;
}

// A name of the file as an error may show it.
std::string Shown(std::string_view name) {
  return Printable({name.data(), name.size()}, /*max_bytes=*/100);
}

absl::Status Named(const char* kind, std::string_view name,
                   const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " ", Shown(name), ": ", std::string(status.message())));
}

// Reads from the front of the file. Errors name the field.
class Cursor {
 public:
  explicit Cursor(absl::Span<const std::byte> file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_.size() - position_; }

  absl::StatusOr<absl::Span<const std::byte>> Bytes(uint64_t count,
                                                    const char* field) {
    if (count > left()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " of ", count, " bytes does not fit the ", left(),
                       " bytes left in the file"));
    }
    const auto bytes = file_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  template <typename T>
  absl::StatusOr<T> Number(const char* field) {
    ASSIGN_OR_RETURN(const auto bytes, Bytes(sizeof(T), field));
    return GgufNumbers<T>(bytes)[0];
  }

  absl::StatusOr<std::string_view> String(const char* field) {
    ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>(field));
    ASSIGN_OR_RETURN(const auto bytes, Bytes(size, field));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()),
                            bytes.size());
  }

  // A string of 1 to `max` bytes.
  absl::StatusOr<std::string_view> Name(uint64_t max, const char* field) {
    ASSIGN_OR_RETURN(const std::string_view name, String(field));
    if (name.empty() || name.size() > max) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has ", name.size(), " bytes, not 1 to ", max));
    }
    return name;
  }

  // Refuses `count` things of at least `bytes_each` that the file cannot hold.
  absl::Status CheckCount(uint64_t count, uint64_t bytes_each,
                          const char* field) const {
    if (count <= left() / bytes_each) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", count, ", but the ", left(),
        " bytes left in the file hold at most ", left() / bytes_each));
  }

 private:
  absl::Span<const std::byte> file_;
  uint64_t position_ = 0;
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
absl::StatusOr<GgufValue> ReadScalar(Cursor& cursor) {
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
absl::StatusOr<GgufValue> ReadNumbers(Cursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(cursor.CheckCount(count, sizeof(T), "array length"));
  ASSIGN_OR_RETURN(const auto bytes, cursor.Bytes(count * sizeof(T), "array"));
  if constexpr (std::is_same_v<T, bool>) RETURN_IF_ERROR(CheckBools(bytes));
  return GgufNumbers<T>(bytes);
}

absl::StatusOr<GgufValue> ReadStrings(Cursor& cursor, uint64_t count) {
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

absl::StatusOr<GgufValue> ReadArray(Cursor& cursor) {
  ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("array type"));
  ASSIGN_OR_RETURN(const auto count, cursor.Number<uint64_t>("array length"));
  if (type == static_cast<uint32_t>(ValueType::kString)) {
    return ReadStrings(cursor, count);
  }
  return WithNumberType(type, "array type", [&](auto number) {
    return ReadNumbers<decltype(number)>(cursor, count);
  });
}

absl::StatusOr<GgufValue> ReadValue(Cursor& cursor, uint32_t type) {
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
absl::StatusOr<GgufValue> ReadTypedValue(Cursor& cursor, std::string_view key) {
  ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("value type"));
  if (key == kAlignmentKey &&
      type != static_cast<uint32_t>(ValueType::kUint32)) {
    return absl::InvalidArgumentError("is not a uint32");
  }
  return ReadValue(cursor, type);
}

absl::StatusOr<std::map<std::string_view, GgufValue>> ReadMetadata(
    Cursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(cursor.CheckCount(count, kMinPairBytes, "metadata count"));
  std::map<std::string_view, GgufValue> metadata;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view key,
                     cursor.Name(kMaxKeyBytes, "metadata key"));
    absl::StatusOr<GgufValue> value = ReadTypedValue(cursor, key);
    if (!value.ok()) return Named("metadata key", key, value.status());
    if (!metadata.emplace(key, *std::move(value)).second) {
      return Named("metadata key", key,
                   absl::InvalidArgumentError("is there twice"));
    }
  }
  return metadata;
}

// The value in the file, or the default of the format.
absl::StatusOr<uint32_t> ReadAlignment(
    const std::map<std::string_view, GgufValue>& metadata,
    uint32_t default_alignment) {
  auto found = metadata.find(kAlignmentKey);
  if (found == metadata.end()) return default_alignment;
  const auto alignment =
      static_cast<uint32_t>(std::get<int64_t>(found->second));
  if (alignment < kMinAlignment || !std::has_single_bit(alignment)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(kAlignmentKey), " is ", alignment,
                     ", not a power of two of at least ", kMinAlignment));
  }
  return alignment;
}

// The bytes that a tensor of this type and these dimensions takes.
absl::StatusOr<uint64_t> ByteSize(const TensorTypeRow& row,
                                  const std::vector<int64_t>& dims) {
  const int64_t row_values = dims.empty() ? 1 : dims[0];
  if (row_values % row.values != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", row_values, " values are not blocks of ",
                     row.values, " (", row.name, ")"));
  }
  int64_t bytes = row_values / row.values;
  bool overflow = __builtin_mul_overflow(bytes, row.bytes, &bytes);
  for (size_t i = 1; i < dims.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, dims[i], &bytes);
  }
  if (overflow) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimensions [", absl::StrJoin(dims, ", "),
                     "] have more than ", INT64_MAX, " bytes"));
  }
  return static_cast<uint64_t>(bytes);
}

struct DirectoryEntry {
  GgufTensor tensor;  // without data
  uint64_t bytes = 0;
};

absl::StatusOr<DirectoryEntry> ReadEntry(Cursor& cursor) {
  DirectoryEntry entry;
  ASSIGN_OR_RETURN(const auto rank, cursor.Number<uint32_t>("dimension count"));
  if (rank > kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension count is ", rank, ", more than ", kMaxDims));
  }
  for (uint32_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(const auto dim, cursor.Number<uint64_t>("dimension"));
    if (dim > static_cast<uint64_t>(INT64_MAX)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension ", dim, " is more than ", INT64_MAX));
    }
    entry.tensor.dims.push_back(static_cast<int64_t>(dim));
  }
  ASSIGN_OR_RETURN(const auto type, cursor.Number<uint32_t>("tensor type"));
  const TensorTypeRow* row = FindRow(type);
  if (row == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor type ", type, " is not supported"));
  }
  entry.tensor.type = row->type;
  ASSIGN_OR_RETURN(entry.bytes, ByteSize(*row, entry.tensor.dims));
  ASSIGN_OR_RETURN(entry.tensor.offset, cursor.Number<uint64_t>("offset"));
  return entry;
}

absl::StatusOr<std::map<std::string_view, DirectoryEntry>> ReadDirectory(
    Cursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(
      cursor.CheckCount(count, kMinTensorEntryBytes, "tensor count"));
  std::map<std::string_view, DirectoryEntry> directory;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view name,
                     cursor.Name(kMaxNameBytes, "tensor name"));
    absl::StatusOr<DirectoryEntry> entry = ReadEntry(cursor);
    if (!entry.ok()) return Named("tensor", name, entry.status());
    if (!directory.emplace(name, *std::move(entry)).second) {
      return Named("tensor", name,
                   absl::InvalidArgumentError("is there twice"));
    }
  }
  return directory;
}

absl::StatusOr<GgufTensor> Locate(DirectoryEntry entry, uint32_t alignment,
                                  absl::Span<const std::byte> data) {
  const uint64_t offset = entry.tensor.offset;
  if (offset % alignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset ", offset, " is not a multiple of ", alignment));
  }
  if (offset > data.size() || entry.bytes > data.size() - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset ", offset, " and size ", entry.bytes,
                     " do not fit the file's ", data.size(), " data bytes"));
  }
  entry.tensor.data = data.subspan(offset, entry.bytes);
  return std::move(entry.tensor);
}

absl::Status CheckNoOverlap(
    const std::map<std::string_view, GgufTensor>& tensors) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string_view>> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.emplace_back(tensor.offset, tensor.data.size(), name);
  }
  // Empty tensors share their offset with the next one: they come first.
  std::sort(parts.begin(), parts.end());
  uint64_t end = 0;
  for (const auto& [offset, bytes, name] : parts) {
    if (offset < end) {
      return Named("tensor", name,
                   absl::InvalidArgumentError(absl::StrCat(
                       "offset ", offset, " overlaps another tensor, which ",
                       "ends at ", end)));
    }
    end = offset + bytes;
  }
  return absl::OkStatus();
}

// The tensor data: what follows the directory and its padding.
absl::Span<const std::byte> DataAfter(uint64_t position, uint32_t alignment,
                                      absl::Span<const std::byte> file) {
  const uint64_t start = (position + alignment - 1) / alignment * alignment;
  return file.subspan(std::min<uint64_t>(start, file.size()));
}

absl::StatusOr<uint32_t> ReadVersion(Cursor& cursor) {
  ASSIGN_OR_RETURN(const auto magic, cursor.Number<uint32_t>("magic"));
  if (magic != kMagic) {
    return absl::InvalidArgumentError("magic is not GGUF");
  }
  ASSIGN_OR_RETURN(const auto version, cursor.Number<uint32_t>("version"));
  if (version != 2 && version != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version is ", version, ", not 2 or 3 in little-endian order"));
  }
  return version;
}

}  // namespace

const char* GgufTensorTypeName(GgufTensorType type) { return RowOf(type).name; }

int64_t GgufBlockValues(GgufTensorType type) { return RowOf(type).values; }

int64_t GgufBlockBytes(GgufTensorType type) { return RowOf(type).bytes; }

absl::StatusOr<GgufFile::Contents> GgufFile::Read(
    absl::Span<const std::byte> file) {
  Contents contents;
  Cursor cursor(file);
  ASSIGN_OR_RETURN(contents.version, ReadVersion(cursor));
  ASSIGN_OR_RETURN(const auto tensors, cursor.Number<uint64_t>("tensor count"));
  ASSIGN_OR_RETURN(const auto pairs, cursor.Number<uint64_t>("metadata count"));
  ASSIGN_OR_RETURN(contents.metadata, ReadMetadata(cursor, pairs));
  ASSIGN_OR_RETURN(contents.alignment,
                   ReadAlignment(contents.metadata, contents.alignment));
  ASSIGN_OR_RETURN(auto directory, ReadDirectory(cursor, tensors));
  const auto data = DataAfter(cursor.position(), contents.alignment, file);
  for (auto& [name, entry] : directory) {
    absl::StatusOr<GgufTensor> tensor =
        Locate(std::move(entry), contents.alignment, data);
    if (!tensor.ok()) return Named("tensor", name, tensor.status());
    contents.tensors.emplace(name, *std::move(tensor));
  }
  RETURN_IF_ERROR(CheckNoOverlap(contents.tensors));
  return contents;
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file(path);
  ASSIGN_OR_RETURN(file.contents_, file.Map(path));
  RETURN_IF_ERROR(file.AddParts());
  return file;
}

absl::StatusOr<GgufFile::Contents> GgufFile::Map(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<Contents> contents = Read(file.bytes());
  if (!contents.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(contents.status().message())));
  }
  files_.push_back(std::move(file));
  return contents;
}

absl::Status GgufFile::AddParts() {
  const absl::StatusOr<int64_t> count = Get<int64_t>("split.count");
  if (absl::IsNotFound(count.status())) return absl::OkStatus();
  RETURN_IF_ERROR(count.status());
  if (*count <= 1) return absl::OkStatus();
  const std::string ending = GgufPartEnding(1, *count);
  if (*count > kMaxGgufParts || !absl::EndsWith(path_, ending)) {
    return Error(absl::InvalidArgumentError(
        absl::StrCat("split.count is ", *count,
                     ": the path must be that of "
                     "the first of at most ",
                     kMaxGgufParts, " parts and end with ", ending)));
  }
  const std::string stem = path_.substr(0, path_.size() - ending.size());
  for (int64_t part = 2; part <= *count; ++part) {
    const std::string path = absl::StrCat(stem, GgufPartEnding(part, *count));
    ASSIGN_OR_RETURN(const Contents contents, Map(path));
    for (const auto& [name, tensor] : contents.tensors) {
      if (contents_.tensors.emplace(name, tensor).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", Shown(name), " is in two parts"));
    }
  }
  return absl::OkStatus();
}

absl::Status GgufFile::Error(const absl::Status& error) const {
  return absl::Status(error.code(),
                      absl::StrCat(path_, ": ", std::string(error.message())));
}

absl::Status GgufFile::NoSuchKey(std::string_view key) const {
  return absl::NotFoundError(
      absl::StrCat(path_, " has no metadata key ", Shown(key)));
}

absl::Status GgufFile::OtherType(std::string_view key) const {
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": metadata key ", Shown(key), " is of another type"));
}

}  // namespace espalier
