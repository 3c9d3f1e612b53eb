#include "common/model/native/expert_routing.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;

std::vector<ExpertChoice> Choose(const ExpertsShape& shape,
                                 const std::vector<float>& logits) {
  std::vector<ExpertChoice> choices(shape.per_row);
  ChooseExperts(shape, logits, absl::MakeSpan(choices));
  return choices;
}

std::vector<int32_t> Experts(const std::vector<ExpertChoice>& choices) {
  std::vector<int32_t> experts;
  for (const ExpertChoice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, TakesTheLargestLogitsAndTheLowerNumberOfEqualOnes) {
  const ExpertsShape shape = {.count = 6, .per_row = 3, .ffn_size = 8};
  EXPECT_THAT(Experts(Choose(shape, {0, 3, 1, 2, 3, -1})),
              ElementsAre(1, 4, 3));
  EXPECT_THAT(Experts(Choose(shape, {2, 2, 2, 2, 2, 2})), ElementsAre(0, 1, 2));
  EXPECT_THAT(Experts(Choose(shape, {-0.0f, 0.0f, 1, -0.0f, 0, 0})),
              ElementsAre(2, 0, 1));
}

TEST(ChooseExperts, WeightsAreTheSoftmaxOverAllExperts) {
  ExpertsShape shape = {
      .count = 4, .per_row = 2, .ffn_size = 8, .weights_sum_to_one = false};
  const double sum = std::exp(1) + std::exp(2) + 1 + std::exp(-1);
  auto choices = Choose(shape, {1, 2, 0, -1});
  EXPECT_NEAR(choices[0].weight, std::exp(2) / sum, 1e-6);
  EXPECT_NEAR(choices[1].weight, std::exp(1) / sum, 1e-6);
  shape.weights_sum_to_one = true;
  choices = Choose(shape, {1, 2, 0, -1});
  EXPECT_NEAR(choices[0].weight, 1 / (1 + std::exp(-1)), 1e-6);
  EXPECT_NEAR(choices[0].weight + choices[1].weight, 1, 1e-6);
}

TEST(ChooseExperts, WhatIsNotANumberIsChosenLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ExpertsShape shape = {.count = 4, .per_row = 3, .ffn_size = 8};
  EXPECT_THAT(Experts(Choose(shape, {nan, -5, nan, 7})), ElementsAre(3, 1, 0));
}

// Every choice has one place; places of an expert follow each other, and its
// rows ascend.
TEST(GroupByExpert, GivesEveryChoiceAPlaceBesideThoseOfItsExpert) {
  std::mt19937 random(1);
  for (int64_t rows : {1, 2, 7, 64}) {
    const ExpertsShape shape = {.count = 5, .per_row = 2, .ffn_size = 8};
    std::vector<ExpertChoice> choices;
    for (int64_t row = 0; row < rows; ++row) {
      const auto first = static_cast<int32_t>(random() % 4);
      choices.push_back({.expert = first});
      choices.push_back({.expert = 4});
    }
    const ExpertGroups groups = GroupByExpert(shape, choices);
    ASSERT_EQ(groups.row_of.size(), choices.size());
    int64_t next = 0;
    int32_t before = -1;
    for (const ExpertGroups::Group& group : groups.groups) {
      EXPECT_GT(group.expert, before);
      EXPECT_EQ(group.first, next);
      EXPECT_GT(group.rows, 0);
      for (int64_t i = 1; i < group.rows; ++i) {
        EXPECT_LT(groups.row_of[next + i - 1], groups.row_of[next + i]);
      }
      next += group.rows;
      before = group.expert;
    }
    EXPECT_EQ(next, 2 * rows);
    EXPECT_EQ(groups.groups.back().rows, rows);  // all rows on one expert
    for (size_t i = 0; i < choices.size(); ++i) {
      EXPECT_EQ(groups.row_of[groups.places[i]], static_cast<int32_t>(i / 2));
    }
  }
}

}  // namespace
}  // namespace espalier
