#include "common/model/files/gguf_tensor.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr uint64_t kMaxNameBytes = 64;  // the format's limit
constexpr uint32_t kMaxDims = 4;        // the format's limit
// The least bytes of an entry: no count is believed that the file cannot hold.
constexpr uint64_t kMinTensorEntryBytes = 8 + 4 + 4 + 8;  // of no dimensions

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

// Returns the bytes that a tensor of this type and these dimensions takes.
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

absl::StatusOr<DirectoryEntry> ReadEntry(GgufCursor& cursor) {
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
    GgufCursor& cursor, uint64_t count) {
  RETURN_IF_ERROR(
      cursor.CheckCount(count, kMinTensorEntryBytes, "tensor count"));
  std::map<std::string_view, DirectoryEntry> directory;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view name,
                     cursor.Name(kMaxNameBytes, "tensor name"));
    absl::StatusOr<DirectoryEntry> entry = ReadEntry(cursor);
    if (!entry.ok()) return NamedGgufError("tensor", name, entry.status());
    if (!directory.emplace(name, *std::move(entry)).second) {
      return NamedGgufError("tensor", name,
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

absl::Status CheckNoOverlap(const GgufTensors& tensors) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string_view>> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.emplace_back(tensor.offset, tensor.data.size(), name);
  }
  // Empty tensors share their offset with the next one: they come first.
  std::sort(parts.begin(), parts.end());
  uint64_t end = 0;
  for (const auto& [offset, bytes, name] : parts) {
    if (offset < end) {
      return NamedGgufError(
          "tensor", name,
          absl::InvalidArgumentError(absl::StrCat(
              "offset ", offset, " overlaps another tensor, which ", "ends at ",
              end)));
    }
    end = offset + bytes;
  }
  return absl::OkStatus();
}

// Returns the tensor data: what follows the directory and its padding.
absl::Span<const std::byte> DataAfter(uint64_t position, uint32_t alignment,
                                      absl::Span<const std::byte> file) {
  const uint64_t start = (position + alignment - 1) / alignment * alignment;
  return file.subspan(std::min<uint64_t>(start, file.size()));
}

}  // namespace

const char* GgufTensorTypeName(GgufTensorType type) { return RowOf(type).name; }

int64_t GgufBlockValues(GgufTensorType type) { return RowOf(type).values; }

int64_t GgufBlockBytes(GgufTensorType type) { return RowOf(type).bytes; }

absl::StatusOr<GgufTensors> ReadGgufTensors(GgufCursor& cursor, uint64_t count,
                                            uint32_t alignment,
                                            absl::Span<const std::byte> file) {
  ASSIGN_OR_RETURN(auto directory, ReadDirectory(cursor, count));
  const auto data = DataAfter(cursor.position(), alignment, file);
  GgufTensors tensors;
  for (auto& [name, entry] : directory) {
    absl::StatusOr<GgufTensor> tensor =
        Locate(std::move(entry), alignment, data);
    if (!tensor.ok()) return NamedGgufError("tensor", name, tensor.status());
    tensors.emplace(name, *std::move(tensor));
  }
  RETURN_IF_ERROR(CheckNoOverlap(tensors));
  return tensors;
}

}  // namespace espalier
