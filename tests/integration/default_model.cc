#include "tests/integration/default_model.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace espalier::testing {

std::string DefaultModelFolder() {
  const auto environment = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string cache = environment("ESPALIER_CACHE");
  if (cache.empty()) {
    cache = environment("XDG_CACHE_HOME");
    cache = absl::StrCat(
        cache.empty() ? environment("HOME") + "/.cache" : cache, "/espalier");
  }
  return cache + "/models/smollm2-135m-instruct";
}

bool HasDefaultModel() { return std::filesystem::exists(DefaultModelFolder()); }

}  // namespace espalier::testing
