#include "common/model/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/json/parse_json.h"
#include "common/model/files/json_file.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little);

// The limit of the format's reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;
// Far above any model; bounds the time that a file can take.
constexpr size_t kMaxTensors = size_t{1} << 18;

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t bytes;
};
constexpr std::array<DTypeRow, 10> kDTypes = {{
    {DType::kF64, "F64", 8},
    {DType::kF32, "F32", 4},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kI64, "I64", 8},
    {DType::kI32, "I32", 4},
    {DType::kI16, "I16", 2},
    {DType::kI8, "I8", 1},
    {DType::kU8, "U8", 1},
    {DType::kBool, "BOOL", 1},
}};

// nullptr: no dtype of the format.
const DTypeRow* DTypeFromJson(const Json& json) {
  if (!json.is_string()) return nullptr;
  for (const DTypeRow& row : kDTypes) {
    if (json.get_ref<const std::string&>() == row.name) return &row;
  }
  return nullptr;
}

// Non-negative integers; nullopt if `json` is anything else.
std::optional<std::vector<int64_t>> SizesFromJson(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& item : json) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const uint64_t size = item.get<uint64_t>();
    if (size > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

// nullopt on overflow.
std::optional<int64_t> ByteSize(const std::vector<int64_t>& shape,
                                int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Reads one entry of the header. `data` is everything after the header.
absl::StatusOr<TensorView> ReadEntry(const Json& entry,
                                     absl::Span<const std::byte> data) {
  if (!entry.is_object()) {
    return absl::InvalidArgumentError("its entry is not an object");
  }
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(field)) {
      return absl::InvalidArgumentError(absl::StrCat("has no ", field));
    }
  }
  TensorView view;
  const DTypeRow* const dtype = DTypeFromJson(entry["dtype"]);
  if (dtype == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("has the unknown dtype ", ToText(entry["dtype"])));
  }
  view.dtype = dtype->dtype;
  std::optional<std::vector<int64_t>> shape = SizesFromJson(entry["shape"]);
  if (!shape.has_value()) {
    return absl::InvalidArgumentError("shape is not a list of sizes");
  }
  view.shape = *std::move(shape);
  const auto offsets = SizesFromJson(entry["data_offsets"]);
  if (!offsets.has_value() || offsets->size() != 2) {
    return absl::InvalidArgumentError("data_offsets is not [begin, end]");
  }
  const auto [begin, end] = std::pair((*offsets)[0], (*offsets)[1]);
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets [", begin, ", ", end,
                     "] do not fit the file's ", data.size(), " data bytes"));
  }
  const std::optional<int64_t> bytes = ByteSize(view.shape, dtype->bytes);
  if (bytes != end - begin) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape [", absl::StrJoin(view.shape, ", "), "] of ", dtype->name,
        " does not have the ", end - begin, " bytes of data_offsets"));
  }
  view.data = data.subspan(begin, end - begin);
  return view;
}

// The tensors tile the data: the format allows neither gap nor overlap.
absl::Status CheckTiling(const std::map<std::string, TensorView>& tensors,
                         absl::Span<const std::byte> data) {
  std::vector<std::pair<absl::Span<const std::byte>, std::string_view>> parts;
  for (const auto& [name, view] : tensors) parts.emplace_back(view.data, name);
  // Empty tensors share their offset with the next one: they come first.
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.data(), a.first.size()) <
           std::pair(b.first.data(), b.first.size());
  });
  const std::byte* expected = data.data();
  for (const auto& [bytes, name] : parts) {
    if (bytes.data() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", std::string(name),
          bytes.data() < expected ? " overlaps another" : " follows a gap"));
    }
    expected = bytes.data() + bytes.size();
  }
  if (expected != data.data() + data.size()) {
    return absl::InvalidArgumentError("data after the last tensor");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, TensorView>> ReadTensors(
    absl::Span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return absl::InvalidArgumentError("shorter than a header length");
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (header_bytes >
      std::min<uint64_t>(kMaxHeaderBytes, file.size() - kLengthBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header of ", header_bytes, " bytes does not fit"));
  }
  const std::string_view text(
      reinterpret_cast<const char*>(file.data()) + kLengthBytes, header_bytes);
  const auto data = file.subspan(kLengthBytes + header_bytes);
  ASSIGN_OR_RETURN(const Json header, ParseJsonObject(text, "the header"));

  if (header.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(header.size(), " tensors; the limit is ", kMaxTensors));
  }
  std::map<std::string, TensorView> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<TensorView> view = ReadEntry(entry, data);
    if (!view.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, ": ", view.status().message()));
    }
    tensors.emplace(name, *std::move(view));
  }
  RETURN_IF_ERROR(CheckTiling(tensors, data));
  return tensors;
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto tensors = ReadTensors(file.bytes());
  if (!tensors.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", tensors.status().message()));
  }
  return SafetensorsFile(std::move(file), *std::move(tensors));
}

}  // namespace espalier
