#include "common/obs/log.h"

#include <atomic>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace espalier {
namespace {

std::atomic<bool> as_json = false;

// Never destroyed: threads may log until the process is gone.
spdlog::logger& Logger() {
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger(
        "espalier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
    return made;
  }();
  return logger;
}

std::string Now() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                          absl::UTCTimeZone());
}

struct Shown {
  std::string operator()(const std::string& text) const {
    return absl::StrCat("\"", absl::CEscape(text), "\"");
  }
  std::string operator()(auto number) const { return absl::StrCat(number); }
};

std::string TextLine(const char* level, absl::string_view message,
                     const LogFields& fields) {
  std::string line = absl::StrCat(Now(), " ", level, " ", message);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=",
                    std::visit(Shown(), field.value));
  }
  return line;
}

std::string JsonLine(const char* level, absl::string_view message,
                     const LogFields& fields) {
  nlohmann::ordered_json line = {
      {"time", Now()}, {"level", level}, {"message", std::string(message)}};
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[field.name] = value; },
               field.value);
  }
  return line.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

void Write(spdlog::level::level_enum level, const char* name,
           absl::string_view message, const LogFields& fields) {
  if (!Logger().should_log(level)) return;
  const std::string line = as_json.load(std::memory_order_relaxed)
                               ? JsonLine(name, message, fields)
                               : TextLine(name, message, fields);
  Logger().log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void LogInfo(absl::string_view message, const LogFields& fields) {
  Write(spdlog::level::info, "info", message, fields);
}
void LogWarning(absl::string_view message, const LogFields& fields) {
  Write(spdlog::level::warn, "warning", message, fields);
}
void LogError(absl::string_view message, const LogFields& fields) {
  Write(spdlog::level::err, "error", message, fields);
}

void LogAlways(absl::string_view message) {
  Write(spdlog::level::critical, "info", message, {});
}

std::optional<LogLevel> LogLevelNamed(absl::string_view name) {
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return std::nullopt;
}

void SetLogLevel(LogLevel least) {
  switch (least) {
    case LogLevel::kInfo:
      return Logger().set_level(spdlog::level::info);
    case LogLevel::kWarning:
      return Logger().set_level(spdlog::level::warn);
    case LogLevel::kError:
      return Logger().set_level(spdlog::level::err);
  }
}

void LogAsJson() { as_json = true; }

}  // namespace espalier
