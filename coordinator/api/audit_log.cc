#include "coordinator/api/audit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/obs/log.h"

namespace espalier::coordinator {
namespace {

// Writes whole lines or none: what a full disk took of a line is cut off.
absl::Status AppendTo(int file, const std::string& line) {
  const off_t end = lseek(file, 0, SEEK_END);
  const ssize_t size = write(file, line.data(), line.size());
  if (size == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  const int error = size < 0 ? errno : ENOSPC;
  if (size > 0 && ftruncate(file, end) != 0) {
    LogWarning("the audit has half a line");
  }
  return absl::UnavailableError(std::strerror(error));
}

OrderedJson ParseOwn(const std::string& json) {
  return json.empty() ? OrderedJson() : ReadOrderedJson(json);
}

std::string LineOf(const AuditEntry& entry, int64_t dropped) {
  OrderedJson line = {
      {"time",
       absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone())},
      {"method", entry.method},
      {"caller", entry.caller},
      {"peer", entry.peer},
      {"before", ParseOwn(entry.before)},
      {"wanted", ParseOwn(entry.wanted)},
      {"decision", entry.decision.ok()
                       ? "allowed"
                       : std::string(entry.decision.message())}};
  if (dropped > 0) line["refusals_without_line"] = dropped;
  return ToText(line);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(std::string path) {
  std::unique_ptr<AuditLog> log(new AuditLog(std::move(path)));
  if (log->path_.empty()) return log;
  const absl::Status status = log->Append("");
  if (status.ok()) return log;
  return absl::InvalidArgumentError(
      absl::StrCat("audit_file: ", status.message()));
}

absl::Status AuditLog::Append(const std::string& line) const {
  if (path_.empty()) {
    LogAlways(absl::StrCat("audit ", line));
    return absl::OkStatus();
  }
  const int file =
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
           S_IRUSR | S_IWUSR);
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path_, ": ", std::strerror(errno)));
  }
  const absl::Status status =
      line.empty() ? absl::OkStatus() : AppendTo(file, line + "\n");
  close(file);
  if (status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path_, ": ", status.message()));
}

absl::Status AuditLog::Write(const AuditEntry& entry) {
  MutexLock lock(&mutex_);
  if (!entry.decision.ok() && !refusals_.Take(absl::Now())) {
    ++dropped_;
    return absl::OkStatus();
  }
  const absl::Status status = Append(LineOf(entry, dropped_));
  if (!status.ok()) {
    LogError(absl::StrCat("audit: ", status.message()));
    return absl::UnavailableError("the audit cannot be written");
  }
  dropped_ = 0;
  return status;
}

}  // namespace espalier::coordinator
