#ifndef ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_
#define ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace espalier {

// A Jinja2 template as transformers renders chat templates: in an immutable
// sandbox, with trim_blocks, lstrip_blocks, loop controls, {% generation %},
// raise_exception, strftime_now and its own tojson. Time, memory and nesting
// are bounded (jinja/budget.h). Immutable, so thread-safe.
class JinjaProgram {
 public:
  // Holds what was rendered. Every character that comes from the input is in
  // one of the ranges, whatever the template has done to it: no special token
  // may be read there (Tokenizer::EncodeMixed).
  struct Rendered {
    std::string text;  // UTF-8
    std::vector<ByteRange> from_input;
  };

  // INVALID_ARGUMENT: not a template; says where.
  static absl::StatusOr<std::unique_ptr<JinjaProgram>> Parse(
      const std::string& source);

  ~JinjaProgram();

  // Returns whether the template has `name` as an identifier or a text.
  bool Mentions(std::string_view name) const;

  // Renders with the variables of two objects. Texts and keys of `input` may
  // have been written by a user, but for roles, which templates build their
  // markers of. `now` is for templates that write the date, in the local time
  // zone.
  // INVALID_ARGUMENT: the template's own message, what Python would raise, or
  // the bound that it exceeds, with the template's line.
  absl::StatusOr<Rendered> Render(const nlohmann::ordered_json& trusted,
                                  const nlohmann::ordered_json& input,
                                  absl::Time now) const;

 private:
  struct Parsed;

  explicit JinjaProgram(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_
