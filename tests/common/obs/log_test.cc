#include "common/obs/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace espalier {
namespace {

const LogFields kFields = {
    {"request_id", "a \"b\"\n\xff"}, {"tokens", int64_t{12}}, {"tau", 2.5}};

// Returns what `log` writes to stderr.
template <typename Log>
std::string Written(Log log) {
  testing::internal::CaptureStderr();
  log();
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, TheLevelLeavesOutLesserEvents) {
  EXPECT_FALSE(LogLevelNamed("debug").has_value());
  SetLogLevel(*LogLevelNamed("warning"));
  EXPECT_EQ(Written([] { LogInfo("ready"); }), "");
  EXPECT_NE(Written([] { LogWarning("late"); }), "");
  SetLogLevel(*LogLevelNamed("error"));
  EXPECT_EQ(Written([] { LogWarning("late"); }), "");
  EXPECT_NE(Written([] { LogError("lost"); }), "");
  EXPECT_THAT(Written([] { LogAlways("audit"); }),
              testing::HasSubstr(" info audit"));
  SetLogLevel(*LogLevelNamed("info"));
  EXPECT_NE(Written([] { LogInfo("ready"); }), "");
}

// One process has one form, and JSON comes last.
TEST(LogTest, AnEventIsALineOfTextOrAnObject) {
  EXPECT_THAT(Written([] { LogWarning("request", kFields); }),
              testing::MatchesRegex(
                  "20[-0-9]+T[:0-9]+\\.[0-9]+Z warning request "
                  "request_id=\"a \\\\\"b\\\\\"\\\\n\\\\377\" tokens=12 "
                  "tau=2\\.5\n"));
  EXPECT_THAT(
      Written([] { LogInfo("ready"); }),
      testing::MatchesRegex("20[-0-9]+T[:0-9]+\\.[0-9]+Z info ready\n"));
  LogAsJson();
  const std::string line = Written([] { LogError("request", kFields); });
  const auto event = nlohmann::json::parse(line);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(event["level"], "error");
  EXPECT_EQ(event["message"], "request");
  EXPECT_EQ(event["request_id"], "a \"b\"\n\uFFFD");
  EXPECT_EQ(event["tokens"], 12);
  EXPECT_EQ(event["tau"], 2.5);
  EXPECT_EQ(event["time"].get<std::string>().back(), 'Z');
}

}  // namespace
}  // namespace espalier
