#ifndef ESPALIER_COORDINATOR_CLI_FLAGS_CONNECTION_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_FLAGS_CONNECTION_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/channel.h"

namespace espalier::cli {

// How a command makes sure of a server, and what it shows.
class ConnectionFlags {
 public:
  // --ca, --cert, --key and --server-name.
  void AddTlsTo(FlagSet& flags);
  // These and --token-file.
  void AddTo(FlagSet& flags);

  // Reads the files. Errors name the file, or the flag that is missing.
  absl::StatusOr<Credentials> Read() const;

 private:
  std::string ca_;
  std::string certificate_;
  std::string key_;
  std::string server_name_;
  std::string token_file_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_FLAGS_CONNECTION_FLAGS_H_
