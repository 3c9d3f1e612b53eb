#ifndef ESPALIER_COORDINATOR_CLI_CONTEXT_H_
#define ESPALIER_COORDINATOR_CLI_CONTEXT_H_

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <stop_token>
#include <string>

namespace espalier::cli {

// Where a command finds things when its flags do not say.
struct Places {
  std::string address;          // of the quick start's cluster
  std::filesystem::path model;  // the default model's folder
  std::filesystem::path executable_dir;

  // Looks an environment variable up; empty: unset.
  using Environment = std::function<std::string(const char* name)>;
  static Places From(const Environment& environment, unsigned user_id,
                     std::filesystem::path executable_dir);
};

// All that a command may touch of its process. Made by RunMain or a test.
struct Context {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Places places;
  // Ctrl-C. Requested from another thread, while the command runs.
  std::stop_token interrupt;
  bool err_is_terminal = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CONTEXT_H_
