#include "common/config/service_flags.h"

#include <string>
#include <vector>

#include "espalier/v1/config.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ServiceFlags> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return ParseServiceFlags(static_cast<int>(arguments.size()),
                           arguments.data());
}

std::optional<int> RunFlags(std::vector<const char*> arguments,
                            v1::VerifierConfig& config) {
  arguments.insert(arguments.begin(), "program");
  Reload reload;
  return ConfigFromFlags(
      static_cast<int>(arguments.size()), arguments.data(),
      {.program = "espalier-verifier", .purpose = "verifies"}, config, reload);
}

TEST(ParseServiceFlags, TakesBothSpellings) {
  auto flags = Parse({"--config", "a", "--set", "b=c", "--set=d=e=f"});
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->config_file, "a");
  EXPECT_THAT(flags->overrides, ElementsAre("b=c", "d=e=f"));
  EXPECT_EQ(Parse({"--config=x"})->config_file, "x");
  EXPECT_FALSE(flags->log_json);
  EXPECT_TRUE(Parse({"--log-json"})->log_json);
}

TEST(ParseServiceFlags, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(std::string(Parse({"--port=1"}).status().message()),
              HasSubstr("known: --config"));
  EXPECT_THAT(std::string(Parse({"stray"}).status().message()),
              HasSubstr("\"stray\""));
  EXPECT_THAT(std::string(Parse({"--set"}).status().message()),
              HasSubstr("needs a value"));
}

TEST(ParseServiceFlags, SaysWhatMayHaveBeenMeant) {
  const auto problem = [](const char* argument,
                          const std::vector<std::string>& others) {
    const char* argv[] = {"program", argument};
    return std::string(ParseServiceFlags(2, argv, others).status().message());
  };
  EXPECT_EQ(problem("--confg=a", {}),
            "unknown argument \"--confg=a\"; did you mean --config? Known: "
            "--config, --set, --log-json, --help, --version");
  EXPECT_THAT(problem("--modle", {"--model"}),
              HasSubstr("did you mean --model? Known: --model, --config"));
  EXPECT_EQ(problem("--model", {"--model"}), "--model needs a value");
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
