#ifndef ESPALIER_COMMON_BASE_FILE_STAMP_H_
#define ESPALIER_COMMON_BASE_FILE_STAMP_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

namespace espalier {

// Tells whether a file was written or replaced since.
struct FileStamp {
  std::filesystem::file_time_type time;
  uintmax_t size = 0;

  // Returns one and the same for all paths without a file.
  static FileStamp Of(const std::string& path) {
    std::error_code ignored;
    FileStamp stamp;
    stamp.time = std::filesystem::last_write_time(path, ignored);
    stamp.size = std::filesystem::file_size(path, ignored);
    return stamp;
  }
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_FILE_STAMP_H_
