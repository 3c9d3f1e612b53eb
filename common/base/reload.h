#ifndef ESPALIER_COMMON_BASE_RELOAD_H_
#define ESPALIER_COMMON_BASE_RELOAD_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace espalier {

// Reads files of a running process again: all of them, or none. Not
// thread-safe.
class Reload {
 public:
  // Puts into force what was read.
  using Install = std::function<void()>;
  // Reads and checks, and changes nothing. Errors name the file or field.
  using Read = std::function<absl::StatusOr<Install>()>;

  void Add(Read read) { reads_.push_back(std::move(read)); }
  // Puts `field`, the configuration's that names the file, before its errors.
  void Add(std::string field, Read read);

  // Installs what all reads return. If one fails, nothing changes, and its
  // error is returned.
  absl::Status Run() const;

 private:
  std::vector<Read> reads_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_RELOAD_H_
