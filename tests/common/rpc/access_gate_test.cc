#include "common/rpc/access_gate.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::StartsWith;

class AccessGateTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name(), name);
    std::ofstream(path, std::ios::trunc) << text;
    return path;
  }
  static bool Admits(const AccessGate& gate, const std::string& token) {
    return gate.AdmitHeader(absl::StrCat("Bearer ", token), {Role::kService})
        .ok();
  }
};

TEST_F(AccessGateTest, ReadsItsFilesAgainAndNamesTheirFields) {
  const std::string roles = Write("roles", "client a certificate:a\n");
  const std::string token = Write("token", "the-first-secret\n");
  auto gate = AccessGate::Open({.roles_file = roles, .token_file = token});
  ASSERT_TRUE(gate.ok()) << gate.status();
  Reload reload;
  AccessGate::Follow(
      *gate, {.roles_file = "its.roles_file", .token_file = "its.token_file"},
      reload);

  Write("token", "the-second-secret\n");
  Write("roles", "nonsense\n");
  EXPECT_THAT(std::string(reload.Run().message()),
              StartsWith(absl::StrCat("its.roles_file: ", roles, ": line 1")));
  EXPECT_TRUE(Admits(**gate, "the-first-secret"));

  Write("roles", "client b certificate:b\n");
  EXPECT_TRUE(reload.Run().ok());
  EXPECT_FALSE(Admits(**gate, "the-first-secret"));
  EXPECT_TRUE(Admits(**gate, "the-second-secret"));

  Write("token", "short\n");
  EXPECT_THAT(std::string(reload.Run().message()),
              StartsWith(absl::StrCat("its.token_file: ", token)));
  EXPECT_TRUE(Admits(**gate, "the-second-secret"));
}

}  // namespace
}  // namespace espalier
