#include "drafter/ngram/checked_bytes.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace espalier::drafter {
namespace {

constexpr size_t kVersionBytes = 4, kChecksumBytes = 8;

uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

absl::Status WriteTo(const std::string& path, absl::string_view bytes,
                     bool is_private) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  std::error_code error;
  if (is_private) {
    std::filesystem::permissions(path,
                                 std::filesystem::perms::owner_read |
                                     std::filesystem::perms::owner_write,
                                 error);
  }
  if (!error) {
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  file.close();
  if (file && !error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace

std::string ByteWriter::TakeChecked() {
  Put(Fnv1a(bytes_));
  return std::move(bytes_);
}

absl::string_view ByteReader::GetText(size_t size) {
  const absl::string_view text = bytes_.substr(0, size);
  bytes_.remove_prefix(text.size());
  return text;
}

absl::Status FileFormat::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

absl::StatusOr<absl::string_view> CheckedContent(const FileFormat& format,
                                                 absl::string_view bytes) {
  const size_t head = format.magic.size() + kVersionBytes;
  if (bytes.substr(0, format.magic.size()) != format.magic) {
    return format.Error(absl::StrCat("does not start with ", format.magic,
                                     ": another kind of file"));
  }
  if (bytes.size() < head + kChecksumBytes) {
    return format.Error("truncated in the header");
  }
  const absl::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  const auto version =
      ByteReader(body.substr(format.magic.size())).Get<uint32_t>();
  if (version != format.version) {
    return format.Error(absl::StrCat("format version ", version, ", expected ",
                                     format.version));
  }
  if (ByteReader(bytes.substr(body.size())).Get<uint64_t>() != Fnv1a(body)) {
    return format.Error("checksum does not fit: truncated or damaged");
  }
  return body.substr(head);
}

absl::Status WriteWholeFile(const std::string& path, absl::string_view bytes,
                            bool is_private) {
  const std::string part = path + ".part";
  const absl::Status written = WriteTo(part, bytes, is_private);
  if (written.ok() && std::rename(part.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  std::remove(part.c_str());
  if (!written.ok()) return written;
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::ostringstream bytes;
  bytes << file.rdbuf();  // unlike the buffer's iterators, does not throw
  if (!bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": empty or not readable"));
  }
  return bytes.str();
}

}  // namespace espalier::drafter
