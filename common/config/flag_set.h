#ifndef ESPALIER_COMMON_CONFIG_FLAG_SET_H_
#define ESPALIER_COMMON_CONFIG_FLAG_SET_H_

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/config/flag_value.h"

namespace espalier {

struct FlagSpec {
  std::string name;        // "--max-tokens"
  std::string value_name;  // "N" in the help; empty: a switch
  std::string help;        // may have several lines
};

// The flags of one program or command: a table that is parsed and printed as
// help. absl::flags would make them global, and tests run commands many times.
class FlagSet {
 public:
  // `usage` heads the help.
  explicit FlagSet(std::string usage) : usage_(std::move(usage)) {}

  void AddSwitch(FlagSpec spec, bool* target);
  void AddSwitch(FlagSpec spec, std::function<void()> set);

  // `target` has a type that a ParseFlagValue overload takes.
  template <typename T>
  void Add(FlagSpec spec, T* target) {
    flags_.push_back({std::move(spec), [target](const std::string& text) {
                        return ParseFlagValue(text, target);
                      }});
  }

  // Calls `set` with each value, in place of a target.
  template <typename T>
  void AddSetter(FlagSpec spec, std::function<void(T)> set) {
    flags_.push_back(
        {std::move(spec), [set = std::move(set)](const std::string& text) {
           T value{};
           absl::Status status = ParseFlagValue(text, &value);
           if (status.ok()) set(std::move(value));
           return status;
         }});
  }

  // Takes up to `limit` arguments that are not flags. Default: none.
  void AddPositional(std::vector<std::string>* target, size_t limit);

  // Fills the targets. Accepts "--name value" and "--name=value"; "--" ends the
  // flags. False: --help was given, and the help was printed. INVALID_ARGUMENT
  // names the flag, and the known ones if it is unknown.
  absl::StatusOr<bool> Parse(absl::Span<const std::string> args,
                             std::ostream& help_out) const;

 private:
  struct Flag {
    FlagSpec spec;
    std::function<absl::Status(const std::string&)> set;
    bool is_switch = false;
  };

  const Flag* Find(const std::string& name) const;
  absl::Status Unknown(const std::string& name) const;
  absl::Status TakePositional(const std::string& arg) const;
  void PrintHelp(std::ostream& out) const;

  std::string usage_;
  std::vector<Flag> flags_;
  std::vector<std::string>* positional_ = nullptr;
  size_t positional_limit_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_FLAG_SET_H_
