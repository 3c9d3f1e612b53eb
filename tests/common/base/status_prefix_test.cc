#include "common/base/status_prefix.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace espalier {
namespace {

TEST(StatusPrefix, StandsBeforeTheMessageOfAnError) {
  const absl::Status status =
      WithPrefix("server.tls", absl::NotFoundError("no file"));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "server.tls: no file");
  EXPECT_TRUE(WithPrefix("server.tls", absl::OkStatus()).ok());
}

TEST(StatusPrefix, LeavesAValueAsItIs) {
  absl::StatusOr<std::unique_ptr<int>> value = std::make_unique<int>(3);
  const auto same = WithPrefix("file", std::move(value));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(**same, 3);
  const auto error = WithPrefix(
      "file", absl::StatusOr<int>(absl::InvalidArgumentError("empty")));
  EXPECT_EQ(error.status().message(), "file: empty");
}

}  // namespace
}  // namespace espalier
