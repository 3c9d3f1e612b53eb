#include "common/config/follow_config.h"

#include <string>

#include "common/obs/log.h"
#include "espalier/v1/config.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using testing::HasSubstr;
using testing::Not;

// A configuration that can be edited.
template <typename Config>
struct Followed {
  explicit Followed(const Config& first) : now(first) {
    began = FollowConfig(
        first,
        [this](google::protobuf::Message& into) {
          if (error.ok()) into.CopyFrom(now);
          return error;
        },
        reload);
  }
  // Returns what is logged.
  std::string ReadAgain() {
    testing::internal::CaptureStderr();
    result = reload.Run();
    LogInfo("an info");
    LogWarning("a warning");
    return testing::internal::GetCapturedStderr();
  }

  Config now;
  Reload reload;
  absl::Status began;
  absl::Status result;
  absl::Status error;
};

class FollowConfigTest : public testing::Test {
 protected:
  ~FollowConfigTest() override { SetLogLevel(LogLevel::kInfo); }
};

TEST_F(FollowConfigTest, TheLevelIsReadAgain) {
  v1::CoordinatorConfig config;
  config.mutable_server()->set_log_level("warning");
  Followed followed(config);
  ASSERT_TRUE(followed.began.ok());
  EXPECT_THAT(followed.ReadAgain(), Not(HasSubstr("an info")));
  followed.now.mutable_server()->set_log_level("info");
  EXPECT_THAT(followed.ReadAgain(), HasSubstr("an info"));
  followed.now.mutable_server()->set_log_level("error");
  EXPECT_THAT(followed.ReadAgain(), Not(HasSubstr("a warning")));
}

TEST_F(FollowConfigTest, OtherFieldsTakeARestart) {
  v1::CoordinatorConfig config;
  config.add_drafters()->set_name("a");
  Followed followed(config);
  followed.now.mutable_core()->set_max_nodes(3);
  followed.now.mutable_drafters(0)->set_name("b");
  followed.now.mutable_server()->set_log_level("warning");
  for (int time = 0; time < 2; ++time) {
    const std::string log = followed.ReadAgain();
    EXPECT_TRUE(followed.result.ok());
    EXPECT_THAT(log, HasSubstr("restart changes: core, drafters.0.name\n"));
    EXPECT_THAT(log, Not(HasSubstr("log_level")));
  }
}

TEST_F(FollowConfigTest, WhatIsInvalidChangesNothing) {
  v1::NodeConfig config;
  Followed followed(config);
  followed.now.mutable_verifier()->mutable_server()->set_log_level("loud");
  EXPECT_THAT(followed.ReadAgain(), HasSubstr("an info"));
  EXPECT_EQ(followed.result,
            absl::InvalidArgumentError(
                "verifier.server.log_level: \"loud\" is not info, warning or "
                "error"));
  followed.error = absl::InvalidArgumentError("file:3:1");
  EXPECT_THAT(followed.ReadAgain(), HasSubstr("an info"));
  EXPECT_EQ(followed.result, followed.error);
  followed.error = absl::OkStatus();
  followed.now.mutable_verifier()->mutable_server()->set_log_level("error");
  EXPECT_THAT(followed.ReadAgain(), Not(HasSubstr("a warning")));
}

}  // namespace
}  // namespace espalier
