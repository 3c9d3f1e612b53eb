#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/model/files/architectures/architecture.h"

namespace espalier {

// The table: a line for each architecture, which its file defines.
// clang-format off
#define ESPALIER_ARCHITECTURES(line) \
  line(Gemma2Architecture) \
  line(Gemma3Architecture) \
  line(Gpt2Architecture) \
  line(LlamaArchitecture) \
  line(MistralArchitecture) \
  line(Olmo2Architecture) \
  line(Qwen2Architecture) \
  line(Qwen3Architecture) \
  line(Qwen3MoeArchitecture) \
  line(SmolLm3Architecture)
// clang-format on

#define ESPALIER_DECLARE(name) Architecture name();
ESPALIER_ARCHITECTURES(ESPALIER_DECLARE)
#undef ESPALIER_DECLARE

namespace {

const std::vector<Architecture>& Table() {
#define ESPALIER_ROW(name) name(),
  static const std::vector<Architecture>& table =
      *new std::vector<Architecture>{ESPALIER_ARCHITECTURES(ESPALIER_ROW)};
#undef ESPALIER_ROW
  return table;
}

// Finds the row whose `field` is `name`.
const Architecture* FindRow(const char* Architecture::*field,
                            std::string_view name) {
  for (const Architecture& row : Table()) {
    if (row.*field != nullptr && row.*field == name) return &row;
  }
  return nullptr;
}

std::string NamesIn(const char* Architecture::*field) {
  std::vector<std::string> names;
  for (const Architecture& row : Table()) {
    if (row.*field != nullptr) names.emplace_back(row.*field);
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

}  // namespace

const Architecture* FindFolderArchitecture(std::string_view name) {
  return FindRow(&Architecture::folder_name, name);
}

const Architecture* FindGgufArchitecture(std::string_view name) {
  return FindRow(&Architecture::gguf_name, name);
}

std::string KnownFolderArchitectures() {
  return NamesIn(&Architecture::folder_name);
}

std::string KnownGgufArchitectures() {
  return NamesIn(&Architecture::gguf_name);
}

}  // namespace espalier
