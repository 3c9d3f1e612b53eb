#include "common/config/service_flags.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/config/follow_config.h"
#include "common/config/load_config.h"
#include "common/config/set_field.h"
#include "common/obs/log.h"
#include "google/protobuf/message.h"

namespace espalier {

absl::Status ParseFlagValue(const std::string& text, Setting* setting) {
  setting->settings->push_back(
      setting->field.empty() ? text : absl::StrCat(setting->field, "=", text));
  return absl::OkStatus();
}

void ServiceFlags::AddTo(FlagSet& flags) {
  flags.Add({"--config", "FILE", "configuration in protobuf text format"},
            &config_file);
  flags.Add({"--set", "PATH=VALUE",
             "one field, e.g. server.listen=unix:/tmp/s; wins over the file"},
            &override_);
  flags.AddSwitch({"--log-json", "", "each event of the log is a JSON object"},
                  &log_json);
}

std::optional<int> ConfigFromFlags(int argc, const char* const* argv,
                                   const ServiceUsage& usage,
                                   google::protobuf::Message& config,
                                   Reload& reload) {
  ServiceFlags flags;
  bool version = false;
  FlagSet table(absl::StrCat(
      usage.program, ": ", usage.purpose, "\n\nusage: ", usage.program,
      " [--config FILE] [--set PATH=VALUE]... [--log-json]\n\nfields: ",
      FieldNames(*config.GetDescriptor()),
      " (see proto/espalier/v1/config.proto)"));
  flags.AddTo(table);
  table.AddSwitch({"--version", "", "the version"}, &version);
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const absl::StatusOr<bool> runs = table.Parse(args, std::cout);
  if (runs.ok() && !*runs) return 0;  // help
  if (runs.ok() && version) {
    std::cout << usage.program << " " << Version() << "\n";
    return 0;
  }
  absl::Status status = runs.status();
  if (status.ok() && flags.log_json) LogAsJson();
  const auto load = [file = flags.config_file, overrides = flags.overrides](
                        google::protobuf::Message& into) {
    return LoadConfig(file, overrides, into);
  };
  if (status.ok()) status = load(config);
  if (status.ok()) status = FollowConfig(config, load, reload);
  if (status.ok()) return std::nullopt;
  std::cerr << usage.program << ": " << status.message() << "\n";
  return kExitUsage;
}

int ExitStatus(const absl::StatusOr<int>& result) {
  if (result.ok()) return *result;
  std::cerr << "error: " << result.status().message() << "\n";
  switch (result.status().code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return kExitUsage;
    default:
      return 1;
  }
}

}  // namespace espalier
