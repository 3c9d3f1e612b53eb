#include "common/base/reload.h"

#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

Reload::Read Sets(std::string& value, const std::string& to) {
  return [&value, to]() -> absl::StatusOr<Reload::Install> {
    return [&value, to] { value = to; };
  };
}

TEST(ReloadTest, InstallsAllThatWasRead) {
  std::string a = "old";
  std::string b = "old";
  Reload reload;
  EXPECT_TRUE(reload.Run().ok());
  reload.Add(Sets(a, "new"));
  reload.Add(Sets(b, "newer"));
  EXPECT_EQ(a, "old");
  EXPECT_TRUE(reload.Run().ok());
  EXPECT_EQ(a, "new");
  EXPECT_EQ(b, "newer");
}

TEST(ReloadTest, AnErrorBeginsWithTheField) {
  Reload reload;
  reload.Add("server.roles_file", []() -> absl::StatusOr<Reload::Install> {
    return absl::NotFoundError("/no/file");
  });
  EXPECT_EQ(reload.Run(), absl::NotFoundError("server.roles_file: /no/file"));
}

TEST(ReloadTest, InstallsNothingIfOneReadFails) {
  std::string before = "old";
  std::string after = "old";
  Reload reload;
  reload.Add(Sets(before, "new"));
  reload.Add([]() -> absl::StatusOr<Reload::Install> {
    return absl::InvalidArgumentError("line 3");
  });
  reload.Add(Sets(after, "new"));
  EXPECT_EQ(reload.Run(), absl::InvalidArgumentError("line 3"));
  EXPECT_EQ(before, "old");
  EXPECT_EQ(after, "old");
}

}  // namespace
}  // namespace espalier
