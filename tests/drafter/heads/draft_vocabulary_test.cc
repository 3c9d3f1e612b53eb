#include "drafter/heads/draft_vocabulary.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
TensorView View(const std::vector<T>& values, DType dtype) {
  return {.dtype = dtype,
          .shape = {static_cast<int64_t>(values.size())},
          .data = absl::MakeConstSpan(
              reinterpret_cast<const std::byte*>(values.data()),
              values.size() * sizeof(T))};
}

std::string ErrorOf(const std::vector<int64_t>& offsets) {
  const auto made =
      DraftVocabulary::FromOffsets(View(offsets, DType::kI64), 10);
  return made.ok() ? "" : std::string(made.status().message());
}

TEST(DraftVocabularyTest, OffsetsAreAddedToTheirIndex) {
  const std::vector<int64_t> wide = {0, 2, 2, 6};
  const auto of_wide =
      DraftVocabulary::FromOffsets(View(wide, DType::kI64), 10);
  ASSERT_TRUE(of_wide.ok());
  EXPECT_THAT(of_wide->tokens(), ElementsAre(0, 3, 4, 9));
  const std::vector<int32_t> narrow = {9, -1};
  const auto of_narrow =
      DraftVocabulary::FromOffsets(View(narrow, DType::kI32), 10);
  ASSERT_TRUE(of_narrow.ok());
  EXPECT_THAT(of_narrow->tokens(), ElementsAre(9, 0));
}

TEST(DraftVocabularyTest, FullIsTheIdentity) {
  EXPECT_THAT(DraftVocabulary::Full(3).tokens(), ElementsAre(0, 1, 2));
}

TEST(DraftVocabularyTest, TokensOutsideTheTargetsAreNamed) {
  EXPECT_EQ(ErrorOf({0, 8}), "");
  EXPECT_THAT(
      ErrorOf({0, 9}),
      HasSubstr(
          "entry 1 is 9, which leads out of the target's vocabulary of 10"));
  EXPECT_THAT(ErrorOf({-1}), HasSubstr("entry 0 is -1"));
  EXPECT_THAT(ErrorOf({INT64_MAX, INT64_MIN}), HasSubstr("entry 0"));
  EXPECT_THAT(ErrorOf({0, INT64_MIN}), HasSubstr("entry 1"));
  EXPECT_THAT(ErrorOf({0, INT64_MAX}), HasSubstr("entry 1"));
}

TEST(DraftVocabularyTest, ATokenThatComesTwiceIsNamed) {
  EXPECT_THAT(ErrorOf({1, 0}), HasSubstr("entry 1 gives token 1 again"));
}

TEST(DraftVocabularyTest, OtherTensorsAreRefused) {
  const std::vector<int64_t> offsets = {0, 0, 0, 0};
  TensorView view = View(offsets, DType::kI64);
  view.shape = {2, 2};
  EXPECT_FALSE(DraftVocabulary::FromOffsets(view, 10).ok());
  view = View(offsets, DType::kF32);
  EXPECT_FALSE(DraftVocabulary::FromOffsets(view, 10).ok());
}

}  // namespace
}  // namespace espalier::drafter
