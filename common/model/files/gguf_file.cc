#include "common/model/files/gguf_file.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/model/files/gguf_path.h"

namespace espalier {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"

absl::StatusOr<uint32_t> ReadVersion(GgufCursor& cursor) {
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

absl::StatusOr<GgufFile::Contents> GgufFile::Read(
    absl::Span<const std::byte> file) {
  Contents contents;
  GgufCursor cursor(file);
  ASSIGN_OR_RETURN(contents.version, ReadVersion(cursor));
  ASSIGN_OR_RETURN(const auto tensors, cursor.Number<uint64_t>("tensor count"));
  ASSIGN_OR_RETURN(const auto pairs, cursor.Number<uint64_t>("metadata count"));
  ASSIGN_OR_RETURN(contents.metadata, ReadGgufMetadata(cursor, pairs));
  ASSIGN_OR_RETURN(contents.alignment, GgufAlignment(contents.metadata));
  ASSIGN_OR_RETURN(contents.tensors,
                   ReadGgufTensors(cursor, tensors, contents.alignment, file));
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
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor ", ShownGgufName(name), " is in two parts"));
    }
  }
  return absl::OkStatus();
}

absl::Status GgufFile::Error(const absl::Status& error) const {
  return WithPrefix(path_, error);
}

absl::Status GgufFile::NoSuchKey(std::string_view key) const {
  return absl::NotFoundError(
      absl::StrCat(path_, " has no metadata key ", ShownGgufName(key)));
}

absl::Status GgufFile::OtherType(std::string_view key) const {
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": metadata key ", ShownGgufName(key), " is of another type"));
}

}  // namespace espalier
