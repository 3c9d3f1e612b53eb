#include "common/rpc/role_file.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

// The tokens are "secret-of-alice-1" and "secret-of-bob-123".
constexpr char kAlice[] =
    "client alice "
    "sha256:fa2d923d6c6651649aebc3b70327d91dd822ccea0584240d8dce908e9d206b64\n";
constexpr char kBob[] =
    "operator bob "
    "sha256:07993c739382b7bf0e4a9c53ceabc53636eca398bd5886c87ddf625e7be474f4\n";

class RoleFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) const {
    std::ofstream(path_, std::ios::trunc) << text;
  }
  std::unique_ptr<RoleFile> Read() const {
    auto file = RoleFile::Read(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  const std::string path_ =
      testing::TempDir() + "/roles_" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RoleFileTest, FindsWhoShowsAToken) {
  Write(absl::StrCat("# people\n\n", kAlice, "\t", kBob));
  const auto file = Read();
  const auto alice = file->FindToken("secret-of-alice-1");
  ASSERT_TRUE(alice.has_value());
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(alice->role, Role::kClient);
  EXPECT_EQ(file->FindToken("secret-of-bob-123")->role, Role::kOperator);
  for (const char* wrong :
       {"", "secret-of-alice-2", "secret-of-alice-1 ", kAlice}) {
    EXPECT_FALSE(file->FindToken(wrong).has_value()) << wrong;
  }
}

TEST_F(RoleFileTest, FindsTheFirstLineOfACertificate) {
  Write("service one certificate:coordinator\nclient two certificate:b.c\n");
  const auto file = Read();
  EXPECT_EQ(file->FindCertificate({"x", "b.c"})->name, "two");
  EXPECT_EQ(file->FindCertificate({"b.c", "coordinator"})->name, "one");
  EXPECT_FALSE(file->FindCertificate({"B.C", ""}).has_value());
  EXPECT_FALSE(file->FindToken("coordinator").has_value());
}

TEST_F(RoleFileTest, ATokenThatIsTakenOutIsRevoked) {
  Write(absl::StrCat(kAlice, kBob));
  const auto file = Read();
  const auto alice = file->FindToken("secret-of-alice-1");
  EXPECT_TRUE(file->Has(*alice));
  Write(kBob);
  EXPECT_FALSE(file->Has(*alice));
  EXPECT_FALSE(file->FindToken("secret-of-alice-1").has_value());
  EXPECT_TRUE(file->FindToken("secret-of-bob-123").has_value());
}

TEST_F(RoleFileTest, AChangeOfTheRoleRevokesTheOldOne) {
  Write(kAlice);
  const auto file = Read();
  const auto alice = file->FindToken("secret-of-alice-1");
  Write(absl::StrCat("scrape", std::string(kAlice).substr(6)));
  EXPECT_FALSE(file->Has(*alice));
  EXPECT_EQ(file->FindToken("secret-of-alice-1")->role, Role::kScrape);
}

TEST_F(RoleFileTest, AFileThatIsNotValidChangesNothing) {
  Write(kAlice);
  const auto file = Read();
  Write(absl::StrCat(kBob, "nonsense\n"));
  EXPECT_TRUE(file->FindToken("secret-of-alice-1").has_value());
  EXPECT_FALSE(file->FindToken("secret-of-bob-123").has_value());
}

TEST_F(RoleFileTest, ReadAgainChangesNothingBeforeItIsInstalled) {
  Write(kAlice);
  const auto file = Read();
  const auto install = file->ReadAgain();
  ASSERT_TRUE(install.ok());
  Write("nonsense\n");
  EXPECT_THAT(std::string(file->ReadAgain().status().message()),
              HasSubstr("line 1: a line is ROLE NAME"));
  (*install)();
  EXPECT_TRUE(file->FindToken("secret-of-alice-1").has_value());
}

TEST(ParseRolesTest, ErrorsNameTheLine) {
  const auto error = [](const std::string& line) {
    return std::string(ParseRoles("\n" + line).status().message());
  };
  EXPECT_THAT(error("client alice"), HasSubstr("line 2: a line is ROLE NAME"));
  EXPECT_THAT(error("admin alice sha256:00"), HasSubstr("the role is not"));
  EXPECT_THAT(error("client alice sha256:00"), HasSubstr("64 hexadecimal"));
  EXPECT_THAT(error("client alice secret"), HasSubstr("sha256:HASH or"));
  EXPECT_THAT(error("client alice certificate:"), HasSubstr("sha256:HASH or"));
  EXPECT_THAT(error("client a\x01 certificate:x"), HasSubstr("control"));
  EXPECT_THAT(
      error(absl::StrCat("client ", std::string(129, 'n'), " certificate:x")),
      HasSubstr("128 bytes"));
}

}  // namespace
}  // namespace espalier
