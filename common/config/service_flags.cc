#include "common/config/service_flags.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/config/closest_word.h"
#include "common/config/follow_config.h"
#include "common/config/load_config.h"
#include "common/config/set_field.h"
#include "common/obs/log.h"
#include "google/protobuf/message.h"

namespace espalier {

namespace {

absl::Status Unknown(absl::string_view argument,
                     const std::vector<std::string>& others) {
  std::vector<std::string> known = {"--config", "--set"};
  known.insert(known.begin(), others.begin(), others.end());
  const bool lacks_value =
      std::find(known.begin(), known.end(), argument) != known.end();
  if (lacks_value) {
    return absl::InvalidArgumentError(absl::StrCat(argument, " needs a value"));
  }
  known.insert(known.end(), {"--log-json", "--help", "--version"});
  const std::string name(argument.substr(0, argument.find('=')));
  const std::string hint = DidYouMean(name, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown argument \"", argument, "\"", hint,
      hint.empty() ? "; known: " : " Known: ", absl::StrJoin(known, ", ")));
}

}  // namespace

absl::StatusOr<ServiceFlags> ParseServiceFlags(
    int argc, const char* const* argv, const std::vector<std::string>& others) {
  ServiceFlags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      flags.help = true;
    } else if (argument == "--version") {
      flags.version = true;
    } else if (argument == "--log-json") {
      flags.log_json = true;
    } else if ((argument == "--config" || argument == "--set") &&
               i + 1 < argc) {
      ++i;
      if (argument == "--config") {
        flags.config_file = argv[i];
      } else {
        flags.overrides.push_back(argv[i]);
      }
    } else if (absl::ConsumePrefix(&argument, "--config=")) {
      flags.config_file = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--set=")) {
      flags.overrides.push_back(std::string(argument));
    } else {
      return Unknown(argument, others);
    }
  }
  return flags;
}

std::optional<int> ConfigFromFlags(int argc, const char* const* argv,
                                   const ServiceUsage& usage,
                                   google::protobuf::Message& config,
                                   Reload& reload) {
  auto flags = ParseServiceFlags(argc, argv);
  absl::Status status = flags.status();
  if (status.ok() && flags->help) {
    std::cout << usage.program << ": " << usage.purpose
              << "\n\nusage: " << usage.program
              << " [--config FILE] [--set path=value]... [--log-json]\n"
              << "  --config FILE     configuration in protobuf text format\n"
              << "  --set path=value  one field, e.g. --set server.listen="
                 "unix:/tmp/s; wins over the file\n"
              << "  --log-json        each event of the log is an object of "
                 "JSON\n"
              << "  --version\n\nfields: "
              << FieldNames(*config.GetDescriptor())
              << " (see proto/espalier/v1/config.proto)\n";
    return 0;
  }
  if (status.ok() && flags->version) {
    std::cout << usage.program << " " << Version() << "\n";
    return 0;
  }
  if (status.ok() && flags->log_json) LogAsJson();
  const auto load = [flags](google::protobuf::Message& into) {
    return LoadConfig(flags->config_file, flags->overrides, into);
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
