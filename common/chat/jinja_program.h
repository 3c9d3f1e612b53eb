#ifndef ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_
#define ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace espalier {

// A Jinja template as transformers renders chat templates (trim_blocks,
// lstrip_blocks, loop controls, raise_exception, strftime_now), in llama.cpp's
// engine. Time, memory and nesting are bounded (jinja/jinja_budget.h).
// Immutable, so thread-safe.
class JinjaProgram {
 public:
  // A part of what was rendered.
  struct Piece {
    std::string text;
    bool is_input = false;  // from `input`, as it is
  };

  // INVALID_ARGUMENT: not a template; says where.
  static absl::StatusOr<std::unique_ptr<JinjaProgram>> Parse(
      const std::string& source);

  ~JinjaProgram();

  // Whether the template has `name` as an identifier or a text.
  bool Mentions(std::string_view name) const;

  // Renders with the variables of two objects. Texts of `input` are marked, but
  // for roles, which templates build their markers of. Texts that the template
  // computes from marked ones may lose the mark. `now` is for templates that
  // write the date, in the local time zone.
  // INVALID_ARGUMENT: the template's own message, what it uses that the engine
  // does not have, or the bound that it exceeds.
  absl::StatusOr<std::vector<Piece>> Render(
      const nlohmann::ordered_json& trusted,
      const nlohmann::ordered_json& input, absl::Time now) const;

 private:
  struct Parsed;

  explicit JinjaProgram(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_JINJA_PROGRAM_H_
