#include <fstream>
#include <string>

#include "coordinator/tenants_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

class TenantsFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) const {
    std::ofstream(path_, std::ios::trunc) << text;
  }

  const std::string path_ =
      testing::TempDir() + "/tenants_" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  prometheus::Registry registry_;
  TenantTable table_{&registry_};
};

TEST_F(TenantsFileTest, ReadAgainChangesNothingBeforeItIsInstalled) {
  Write("tenants { name: 'a' }");
  TenantsFile file(path_, &table_);
  ASSERT_TRUE(file.Read().ok());
  Write("tenants { name: 'b' }");
  const auto install = file.ReadAgain();
  ASSERT_TRUE(install.ok()) << install.status();
  EXPECT_TRUE(table_.Lists("a"));
  (*install)();
  EXPECT_FALSE(table_.Lists("a"));
  EXPECT_TRUE(table_.Lists("b"));
}

TEST_F(TenantsFileTest, AFileThatIsNotValidChangesNothing) {
  Write("tenants { name: 'a' }");
  TenantsFile file(path_, &table_);
  ASSERT_TRUE(file.Read().ok());
  Write("tenants { name: 'bc' weight: 0 }");
  EXPECT_THAT(std::string(file.ReadAgain().status().message()),
              HasSubstr(path_ + ": tenants.0.weight: 0 is not in 1 .. 1000"));
  file.Refresh();
  EXPECT_TRUE(table_.Lists("a"));
  Write("tenants { name: 'bcd' }");
  file.Refresh();
  EXPECT_TRUE(table_.Lists("bcd"));
}

TEST_F(TenantsFileTest, WithoutAFileNothingIsRead) {
  TenantsFile file("", &table_);
  ASSERT_TRUE(file.Read().ok());
  const auto install = file.ReadAgain();
  ASSERT_TRUE(install.ok());
  (*install)();
  file.Refresh();
  EXPECT_FALSE(table_.is_divided());
}

}  // namespace
}  // namespace espalier::coordinator
