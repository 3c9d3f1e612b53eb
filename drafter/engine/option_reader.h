#ifndef ESPALIER_DRAFTER_ENGINE_OPTION_READER_H_
#define ESPALIER_DRAFTER_ENGINE_OPTION_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace espalier::drafter {

// Reads a drafter's `name=value` options as written in the configuration. Read
// every option, then call Finish() for the first mistake: a value out of range,
// a missing option, or a name that was not read.
class OptionReader {
 public:
  template <typename T>
  struct Range {
    T fallback;  // when the option is absent
    T min;
    T max;
  };

  // `drafter` is the type's name, for messages. `options` must outlive this.
  OptionReader(absl::string_view drafter,
               const std::map<std::string, std::string>& options)
      : drafter_(drafter), options_(options) {}

  int64_t Integer(absl::string_view name, const Range<int64_t>& range);
  double Number(absl::string_view name, const Range<double>& range);
  bool Flag(absl::string_view name, bool fallback);  // "true" or "false"
  std::string Text(absl::string_view name, absl::string_view fallback);
  // Reads a required text, not empty.
  std::string RequiredText(absl::string_view name);

  // Records a mistake in an option's value that the caller found.
  void Fail(absl::string_view name, absl::string_view problem);

  absl::Status Finish() const;

 private:
  // Returns the option's text; null if it is absent.
  const std::string* Find(absl::string_view name);

  std::string drafter_;
  const std::map<std::string, std::string>& options_;
  std::vector<std::string> known_;
  absl::Status first_error_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_OPTION_READER_H_
