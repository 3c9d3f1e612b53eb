#include "coordinator/cli/engine_sibling.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "tests/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::HasSubstr;

class EngineSiblingTest : public CliFixture {};

TEST_F(EngineSiblingTest, MissingBinaryIsAnErrorThatSaysWhatToDo) {
  const EngineSibling sibling(folder_, {"serve"});
  const absl::Status status = sibling.Exec();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr((folder_ / "espalier-local").string()));
  EXPECT_EQ(sibling.AsLocalClusterFactory()({}, {}).status(), status);
}

TEST_F(EngineSiblingTest, BecomesTheSiblingWithTheSameArguments) {
  const std::string path = Write("espalier-local",
                                 "#!/bin/sh\n"
                                 "[ \"$1\" = serve ] && [ \"$2\" = 'a b' ] && "
                                 "exit 7\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const EngineSibling sibling(folder_, {"serve", "a b"});
  EXPECT_EXIT(static_cast<void>(sibling.Exec()), ::testing::ExitedWithCode(7),
              "");
}

}  // namespace
}  // namespace espalier::cli
