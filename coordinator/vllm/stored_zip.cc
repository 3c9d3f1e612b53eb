#include "coordinator/vllm/stored_zip.h"

#include <zlib.h>

#include <cstdint>

namespace espalier::coordinator {
namespace {

constexpr uint16_t kVersion = 20;  // 2.0
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kNoTime = 0;
constexpr uint16_t kFirstDay = (1 << 5) | 1;  // 1980-01-01

void Put16(uint16_t value, std::string& out) {
  out += static_cast<char>(value & 0xff);
  out += static_cast<char>(value >> 8);
}

void Put32(uint32_t value, std::string& out) {
  Put16(static_cast<uint16_t>(value & 0xffff), out);
  Put16(static_cast<uint16_t>(value >> 16), out);
}

// What a file's local header and its entry in the directory have in common.
void PutCommon(const TextFile& file, std::string& out) {
  const auto size = static_cast<uint32_t>(file.content.size());
  Put16(kVersion, out);
  Put16(kUtf8Names, out);
  Put16(0, out);  // stored
  Put16(kNoTime, out);
  Put16(kFirstDay, out);
  Put32(static_cast<uint32_t>(crc32_z(
            0, reinterpret_cast<const Bytef*>(file.content.data()), size)),
        out);
  Put32(size, out);
  Put32(size, out);
  Put16(static_cast<uint16_t>(file.name.size()), out);
  Put16(0, out);  // no extra field
}

}  // namespace

std::string StoredZip(absl::Span<const TextFile> files) {
  std::string out, directory;
  for (const TextFile& file : files) {
    const auto offset = static_cast<uint32_t>(out.size());
    Put32(0x04034b50, out);
    PutCommon(file, out);
    out += file.name;
    out += file.content;

    Put32(0x02014b50, directory);
    Put16(kVersion, directory);
    PutCommon(file, directory);
    Put16(0, directory);  // no comment
    Put16(0, directory);  // disk
    Put16(0, directory);  // attributes
    Put32(0, directory);
    Put32(offset, directory);
    directory += file.name;
  }
  const auto begin = static_cast<uint32_t>(out.size());
  const auto count = static_cast<uint16_t>(files.size());
  out += directory;
  Put32(0x06054b50, out);
  Put32(0, out);  // disks
  Put16(count, out);
  Put16(count, out);
  Put32(static_cast<uint32_t>(directory.size()), out);
  Put32(begin, out);
  Put16(0, out);  // no comment
  return out;
}

}  // namespace espalier::coordinator
