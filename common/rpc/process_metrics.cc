#include "common/rpc/process_metrics.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/version.h"
#include "common/rpc/convert.h"

namespace espalier {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::string ReadAll(const char* path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

struct ProcessStat {
  double cpu_seconds = 0;
  double start_ticks = 0;  // since boot
  double resident_bytes = 0;
};

// Reads the fields of /proc/self/stat (proc(5)) after the command, which is in
// parentheses and may contain anything. The first field after it is number 3.
std::optional<ProcessStat> ReadStat() {
  const std::string stat = ReadAll("/proc/self/stat");
  const size_t command_end = stat.rfind(") ");
  if (command_end == stat.npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(command_end + 2), ' ');
  const auto field = [&fields](size_t number, double* value) {
    return number - 3 < fields.size() &&
           absl::SimpleAtod(fields[number - 3], value);
  };
  double user = 0;
  double system = 0;
  double resident_pages = 0;
  ProcessStat result;
  if (!field(14, &user) || !field(15, &system) ||
      !field(22, &result.start_ticks) || !field(24, &resident_pages)) {
    return std::nullopt;
  }
  result.cpu_seconds =
      (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  result.resident_bytes =
      resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  return result;
}

// Unix time of the boot.
std::optional<double> BootSeconds() {
  const std::string text = ReadAll("/proc/stat");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double seconds = 0;
    if (absl::ConsumePrefix(&line, "btime ") &&
        absl::SimpleAtod(line, &seconds)) {
      return seconds;
    }
  }
  return std::nullopt;
}

std::optional<double> OpenFds() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", error), end;
       !error && fd != end; fd.increment(error)) {
    ++count;
  }
  if (error) return std::nullopt;
  return count - 1;  // without the descriptor that reads the folder
}

MetricFamily Family(std::string name, std::string help, MetricType type,
                    double value) {
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      value;
  return {.name = std::move(name),
          .help = std::move(help),
          .type = type,
          .metric = {std::move(metric)}};
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  std::vector<MetricFamily> families;
  if (auto stat = ReadStat()) {
    families.push_back(Family("process_cpu_seconds_total",
                              "User and system CPU time, in seconds.",
                              MetricType::Counter, stat->cpu_seconds));
    families.push_back(Family("process_resident_memory_bytes",
                              "Resident memory, in bytes.", MetricType::Gauge,
                              stat->resident_bytes));
    if (auto boot = BootSeconds()) {
      families.push_back(
          Family("process_start_time_seconds", "Start, in Unix time.",
                 MetricType::Gauge,
                 *boot + stat->start_ticks /
                             static_cast<double>(sysconf(_SC_CLK_TCK))));
    }
  }
  if (auto fds = OpenFds()) {
    families.push_back(Family("process_open_fds", "Open file descriptors.",
                              MetricType::Gauge, *fds));
  }
  MetricFamily build =
      Family("espalier_build_info", "1, labelled with what runs here.",
             MetricType::Gauge, 1);
  build.metric[0].label = {{"version", Version()},
                           {"protocol", absl::StrCat(kProtocolVersion)}};
  families.push_back(std::move(build));
  return families;
}

}  // namespace espalier
