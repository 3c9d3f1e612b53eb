#include "common/spec/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(TraceContextTest, KnowsATraceparent) {
  const std::string good =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_TRUE(IsTraceparent(good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(IsTraceparent(good.substr(0, i))) << i;
    std::string bad = good;
    bad[i] = good[i] == '-' ? '0' : 'G';
    EXPECT_FALSE(IsTraceparent(bad)) << bad;
  }
  EXPECT_FALSE(IsTraceparent(good + "0"));
  EXPECT_FALSE(
      IsTraceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  EXPECT_FALSE(
      IsTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
}

}  // namespace
}  // namespace espalier
