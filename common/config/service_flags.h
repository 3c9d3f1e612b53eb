// The command line of the three services and of `espalier serve`:
//   [--config FILE] [--set path=value]... [--log-json] [--help]
// The services have --version, too.
#ifndef ESPALIER_COMMON_CONFIG_SERVICE_FLAGS_H_
#define ESPALIER_COMMON_CONFIG_SERVICE_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/reload.h"
#include "common/config/flag_set.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace espalier {

inline constexpr int kExitUsage = 2;

// A flag whose value is a setting: of `field`, or "path=value" if it is empty.
struct Setting {
  std::string field;
  std::vector<std::string>* settings;
};
absl::Status ParseFlagValue(const std::string& text, Setting* setting);

struct ServiceFlags {
  std::string config_file;             // empty: none
  std::vector<std::string> overrides;  // "path=value"
  bool log_json = false;               // see LogAsJson

  ServiceFlags() = default;
  ServiceFlags(const ServiceFlags&) = delete;  // flags point into it

  // Adds them to flags, which must not outlive this object.
  void AddTo(FlagSet& flags);

 private:
  Setting override_ = {"", &overrides};
};

struct ServiceUsage {
  absl::string_view program;  // "espalier-verifier"
  absl::string_view purpose;  // one sentence for --help
};

// Does the first half of every main: parses the flags and fills `config`.
// The configuration is read again by `reload` (see FollowConfig).
// Returns an exit code if the process is done: help or version was printed, or
// the usage was wrong, which is reported on stderr.
std::optional<int> ConfigFromFlags(int argc, const char* const* argv,
                                   const ServiceUsage& usage,
                                   google::protobuf::Message& config,
                                   Reload& reload);

// Returns the exit status for the result of a service's run. Reports an error
// on stderr: kExitUsage if configuration or files are at fault, otherwise 1.
int ExitStatus(const absl::StatusOr<int>& result);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_SERVICE_FLAGS_H_
