#include "drafter/ngram/tenants.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> SaltsOf(const Tenants<int>& tenants) {
  std::vector<std::string> salts;
  tenants.ForEach(
      [&](const std::string& salt, const int&) { salts.push_back(salt); });
  return salts;
}

TEST(Tenants, EachHasAStateOfItsOwn) {
  Tenants<int> tenants(3, [] { return std::make_unique<int>(7); });
  tenants.Get("a") = 1;
  EXPECT_EQ(tenants.Get("b"), 7);
  EXPECT_EQ(tenants.Get(""), 7);
  EXPECT_EQ(tenants.Get("a"), 1);
}

TEST(Tenants, TheOneThatWasUsedLeastRecentlyIsDroppedWhole) {
  Tenants<int> tenants(2, [] { return std::make_unique<int>(7); });
  tenants.Get("a") = 1;
  tenants.Get("b") = 2;
  tenants.Get("a");
  tenants.Get("c") = 3;
  EXPECT_THAT(SaltsOf(tenants), ElementsAre("a", "c"));
  EXPECT_EQ(tenants.Get("b"), 7);
  EXPECT_EQ(tenants.size(), 2);
}

}  // namespace
}  // namespace espalier::drafter
