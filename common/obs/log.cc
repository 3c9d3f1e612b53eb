#include "common/obs/log.h"

#include <memory>

#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace espalier {
namespace {

// Never destroyed: threads may log until the process is gone.
spdlog::logger& Logger() {
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger(
        "espalier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc));
    return made;
  }();
  return logger;
}

void Write(spdlog::level::level_enum level, absl::string_view message) {
  Logger().log(level, spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace

void LogInfo(absl::string_view message) { Write(spdlog::level::info, message); }
void LogWarning(absl::string_view message) {
  Write(spdlog::level::warn, message);
}
void LogError(absl::string_view message) { Write(spdlog::level::err, message); }

}  // namespace espalier
