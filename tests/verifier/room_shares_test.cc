#include "verifier/engine/room_shares.h"

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;

// Sequences by age.
struct Sequences {
  std::vector<RoomClaim> claims;
  std::vector<TenantShare> shares;

  void Add(const TenantShare& share, int64_t expected, bool dormant = false) {
    claims.push_back({.expected = expected, .dormant = dormant});
    shares.push_back(share);
  }
  std::vector<bool> Beyond(int64_t pool) {
    std::vector<const TenantShare*> tenants;
    for (const TenantShare& share : shares) tenants.push_back(&share);
    FindShares(absl::MakeSpan(claims), tenants, pool);
    std::vector<bool> beyond;
    for (const RoomClaim& claim : claims) beyond.push_back(claim.beyond_share);
    return beyond;
  }
};

TEST(FindSharesTest, PartsGoByWeight) {
  Sequences sequences;
  const TenantShare a = {"a", 3}, b = {"b", 1};
  sequences.Add(a, 40);
  sequences.Add(a, 30);
  sequences.Add(b, 20);
  sequences.Add(a, 10);
  sequences.Add(b, 10);
  EXPECT_THAT(sequences.Beyond(100),
              ElementsAre(false, false, false, true, true));
}

TEST(FindSharesTest, TheOldestOfATenantIsWithin) {
  Sequences sequences;
  sequences.Add({"a", 1}, 90);
  sequences.Add({"b", 1}, 80);
  sequences.Add({"b", 1}, 1);
  EXPECT_THAT(sequences.Beyond(100), ElementsAre(false, false, true));
}

TEST(FindSharesTest, ATenantAloneHasAll) {
  Sequences sequences;
  sequences.Add({"a", 1}, 90);
  sequences.Add({"a", 1}, 90);
  sequences.Add({"b", 1}, 50, /*dormant=*/true);
  EXPECT_THAT(sequences.Beyond(100), ElementsAre(false, false, false));
}

TEST(FindSharesTest, WhatIsHeldCounts) {
  Sequences sequences;
  sequences.Add({"a", 1}, 10);
  sequences.Add({"a", 1}, 10);
  sequences.Add({"b", 1}, 10);
  sequences.claims[0].held = 45;
  EXPECT_THAT(sequences.Beyond(100), ElementsAre(false, true, false));
}

TEST(FindSharesTest, EachTenantHasItsPartAndNoMore) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::map<std::string, double> weights;
    for (const char* name : {"", "a", "b", "c"}) {
      weights[name] = static_cast<double>(1 + random() % 5);
    }
    Sequences sequences;
    double present = 0;
    std::map<std::string, std::vector<size_t>> by_tenant;
    for (size_t i = 0; i < 1 + random() % 9; ++i) {
      const auto& [name, weight] =
          *std::next(weights.begin(), static_cast<int>(random() % 4));
      const bool dormant = random() % 4 == 0;
      sequences.Add({name, weight}, static_cast<int64_t>(random() % 60),
                    dormant);
      if (dormant) continue;
      if (by_tenant[name].empty()) present += weight;
      by_tenant[name].push_back(i);
    }
    const std::vector<bool> beyond = sequences.Beyond(100);
    for (const auto& [name, own] : by_tenant) {
      EXPECT_FALSE(beyond[own.front()]);
      const double part =
          by_tenant.size() == 1 ? HUGE_VAL : 100 * weights[name] / present;
      double taken = 0;
      for (size_t i : own) {
        taken += static_cast<double>(sequences.claims[i].expected);
        EXPECT_EQ(beyond[i], i != own.front() && taken > part + 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace espalier::verifier
