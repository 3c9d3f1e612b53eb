#include "common/config/service_flags.h"

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "espalier/v1/config.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::string config_file;
  std::vector<std::string> overrides;
  bool log_json = false;
};

absl::StatusOr<Parsed> Parse(const std::vector<std::string>& arguments) {
  ServiceFlags flags;
  Setting model = {"verifier.model", &flags.overrides};
  FlagSet table("usage");
  flags.AddTo(table);
  table.Add({"--model", "PATH", "short for a field"}, &model);
  std::ostringstream help;
  const absl::StatusOr<bool> runs = table.Parse(arguments, help);
  if (!runs.ok()) return runs.status();
  return Parsed{flags.config_file, flags.overrides, flags.log_json};
}

std::optional<int> RunFlags(std::vector<const char*> arguments,
                            v1::VerifierConfig& config) {
  arguments.insert(arguments.begin(), "program");
  Reload reload;
  return ConfigFromFlags(
      static_cast<int>(arguments.size()), arguments.data(),
      {.program = "espalier-verifier", .purpose = "verifies"}, config, reload);
}

TEST(ServiceFlags, TakesBothSpellings) {
  auto flags = Parse({"--config", "a", "--set", "b=c", "--set=d=e=f"});
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->config_file, "a");
  EXPECT_THAT(flags->overrides, ElementsAre("b=c", "d=e=f"));
  EXPECT_EQ(Parse({"--config=x"})->config_file, "x");
  EXPECT_FALSE(flags->log_json);
  EXPECT_TRUE(Parse({"--log-json"})->log_json);
}

TEST(ServiceFlags, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(std::string(Parse({"--port=1"}).status().message()),
              HasSubstr("known: --config"));
  EXPECT_THAT(std::string(Parse({"stray"}).status().message()),
              HasSubstr("\"stray\""));
  EXPECT_THAT(std::string(Parse({"--set"}).status().message()),
              HasSubstr("needs a value"));
}

TEST(ServiceFlags, SaysWhatMayHaveBeenMeant) {
  const auto problem = [](const char* argument) {
    return std::string(Parse({argument}).status().message());
  };
  EXPECT_EQ(problem("--confg=a"),
            "unknown flag --confg; did you mean --config? Known: --config, "
            "--set, --log-json, --model, --help");
  EXPECT_THAT(problem("--modle"), HasSubstr("did you mean --model?"));
  EXPECT_EQ(problem("--model"), "--model needs a value: PATH");
}

TEST(ServiceFlags, AFlagMayBeShortForAField) {
  EXPECT_THAT(Parse({"--set=a=b", "--model", "m", "--model=n"})->overrides,
              ElementsAre("a=b", "verifier.model=m", "verifier.model=n"));
}

TEST(ConfigFromFlags, FillsTheConfiguration) {
  v1::VerifierConfig config;
  EXPECT_EQ(RunFlags({"--set", "engine.model=/m"}, config), std::nullopt);
  EXPECT_EQ(config.engine().model(), "/m");
}

TEST(ConfigFromFlags, EndsWithTwoOnBadUsageAndZeroOnHelp) {
  v1::VerifierConfig config;
  EXPECT_EQ(RunFlags({"--set", "engine.modle=/m"}, config), 2);
  EXPECT_EQ(RunFlags({"--nope"}, config), 2);
  EXPECT_EQ(RunFlags({"--config", "/nonexistent"}, config), 2);
  EXPECT_EQ(RunFlags({"--help"}, config), 0);
  EXPECT_EQ(RunFlags({"--version"}, config), 0);
}

}  // namespace
}  // namespace espalier
