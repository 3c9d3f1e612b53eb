// Renders chat templates for differential_test.py: reads one JSON object per
// line, {"source": text, "trusted": {...}, "input": {...}}, and answers each
// with {"text": ...} or {"error": ...}.
#include <iostream>
#include <string>

#include "absl/time/civil_time.h"
#include "common/chat/jinja_program.h"
#include "common/json/ordered_json.h"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

Json Answer(const std::string& line) {
  const auto error = [](const absl::Status& status) {
    return Json{{"error", std::string(status.message())}};
  };
  const auto request = ParseOrderedJson(line);
  if (!request.ok()) return error(request.status());
  const auto program =
      JinjaProgram::Parse((*request)["source"].get<std::string>());
  if (!program.ok()) return error(program.status());
  // The clock of make_template_goldens.py.
  const absl::Time now =
      absl::FromCivil(absl::CivilHour(2024, 7, 26, 12), absl::UTCTimeZone());
  const auto rendered =
      (*program)->Render((*request)["trusted"], (*request)["input"], now);
  if (!rendered.ok()) return error(rendered.status());
  return Json{{"text", rendered->text}};
}

}  // namespace
}  // namespace espalier

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << espalier::Answer(line).dump() << std::endl;
  }
}
