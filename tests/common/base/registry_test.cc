#include "common/base/registry.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Shape {
  int size;
};
using Shapes = Registry<Shape, int>;

Shapes TwoShapes() {
  Shapes shapes("shape");
  shapes.Add("square",
             [](int size) { return std::make_unique<Shape>(Shape{size}); });
  shapes.Add("broken", [](int) -> absl::StatusOr<std::unique_ptr<Shape>> {
    return absl::NotFoundError("no such file");
  });
  return shapes;
}

TEST(Registry, CreatesByNameWithTheArguments) {
  const auto shape = TwoShapes().Create("square", 7);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ((*shape)->size, 7);
}

TEST(Registry, PassesOnTheFactorysError) {
  EXPECT_EQ(TwoShapes().Create("broken", 1).status(),
            absl::NotFoundError("no such file"));
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsTheKnown) {
  const auto shape = TwoShapes().Create("sqare", 1);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.status().message()),
              HasSubstr("unknown shape \"sqare\"; known: broken, square"));
}

TEST(Registry, NamesAreSorted) {
  EXPECT_THAT(TwoShapes().Names(), ElementsAre("broken", "square"));
}

TEST(RegistryDeathTest, ANameTwiceIsABug) {
  Shapes shapes = TwoShapes();
  EXPECT_DEATH(shapes.Add("square", nullptr), "CHECK failed");
}

}  // namespace
}  // namespace espalier
