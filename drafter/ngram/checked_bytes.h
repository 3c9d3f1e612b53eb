// Numbers in files, little endian, with a checksum at the end.
#ifndef ESPALIER_DRAFTER_NGRAM_CHECKED_BYTES_H_
#define ESPALIER_DRAFTER_NGRAM_CHECKED_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier::drafter {

class ByteWriter {
 public:
  template <typename T>
  void Put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(
          static_cast<char>(static_cast<uint64_t>(value) >> 8 * i));
    }
  }
  void PutText(absl::string_view text) {
    bytes_.append(text.data(), text.size());
  }
  template <typename T, typename U>
  void PutColumn(const std::vector<U>& column) {
    for (U value : column) Put(static_cast<T>(value));
  }
  // Ends with the checksum (FNV-1a, uint64) of what was put.
  std::string TakeChecked();

 private:
  std::string bytes_;
};

// Reads past the end give zeros: compare remaining() first.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T) && !bytes_.empty(); ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes_[0])} << 8 * i;
      bytes_.remove_prefix(1);
    }
    return static_cast<T>(value);
  }
  template <typename T, typename U>
  void GetColumn(int64_t size, std::vector<U>& column) {
    column.reserve(size);
    for (int64_t i = 0; i < size; ++i) {
      column.push_back(static_cast<U>(Get<T>()));
    }
  }
  absl::string_view GetText(size_t size);
  uint64_t remaining() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
};

struct FileFormat {
  absl::string_view name;  // for messages
  absl::string_view magic;
  uint32_t version = 1;

  // INVALID_ARGUMENT with the name before what is wrong.
  absl::Status Error(absl::string_view what) const;
};

// Returns what follows magic and version (uint32), before the checksum.
// INVALID_ARGUMENT: another kind or version of file, truncated or damaged. The
// checksum guards against damage, not against an adversary.
absl::StatusOr<absl::string_view> CheckedContent(const FileFormat& format,
                                                 absl::string_view bytes);

// Writes beside `path` and renames, so that no reader sees half a file.
// `is_private`: only the user may read it. UNAVAILABLE: it cannot be written.
absl::Status WriteWholeFile(const std::string& path, absl::string_view bytes,
                            bool is_private = false);
// NOT_FOUND: cannot be opened. INVALID_ARGUMENT: cannot be read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_CHECKED_BYTES_H_
