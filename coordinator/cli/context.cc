#include "coordinator/cli/context.h"

#include <utility>

namespace espalier::cli {
namespace {

std::filesystem::path CacheFolder(const Places::Environment& environment) {
  if (auto own = environment("ESPALIER_CACHE"); !own.empty()) return own;
  std::filesystem::path all = environment("XDG_CACHE_HOME");
  if (all.empty()) {
    all = std::filesystem::path(environment("HOME")) / ".cache";
  }
  return all / "espalier";
}

}  // namespace

std::string Screen::Paint(const char* color, const std::string& text) const {
  return colors ? "\x1b[" + std::string(color) + "m" + text + "\x1b[0m" : text;
}

Places Places::From(const Environment& environment, unsigned user_id,
                    std::filesystem::path executable_dir) {
  std::filesystem::path runtime = environment("XDG_RUNTIME_DIR");
  if (runtime.empty()) runtime = "/tmp";
  runtime /= "espalier-" + std::to_string(user_id);
  return {
      .address = "unix:" + (runtime / "coordinator.sock").string(),
      .admin_address = "unix:" + (runtime / "admin.sock").string(),
      .model = CacheFolder(environment) / "models" / "smollm2-135m-instruct",
      .executable_dir = std::move(executable_dir),
  };
}

}  // namespace espalier::cli
