#include "common/model/native/expert_routing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "common/base/check.h"

namespace espalier {

void ChooseExperts(const ExpertsShape& shape, absl::Span<const float> logits,
                   absl::Span<ExpertChoice> out) {
  ESPALIER_CHECK(std::ssize(logits) == shape.count &&
                 std::ssize(out) == shape.per_row);
  const auto logit = [&](int32_t expert) {
    return std::isnan(logits[expert]) ? -std::numeric_limits<float>::infinity()
                                      : logits[expert];
  };
  std::vector<int32_t> order(shape.count);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + shape.per_row, order.end(),
                    [&](int32_t a, int32_t b) {
                      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
                    });
  const float largest = logit(order[0]);
  float sum = 0;  // in the order of the experts
  for (float x : logits) sum += std::exp(x - largest);
  float chosen = 0;
  for (int64_t i = 0; i < shape.per_row; ++i) {
    out[i] = {.expert = order[i],
              .weight = std::exp(logits[order[i]] - largest) / sum};
    chosen += out[i].weight;
  }
  if (!shape.weights_sum_to_one) return;
  for (ExpertChoice& choice : out) choice.weight /= chosen;
}

ExpertGroups GroupByExpert(const ExpertsShape& shape,
                           absl::Span<const ExpertChoice> choices) {
  std::vector<int64_t> next(shape.count, 0);  // place of an expert's next row
  for (const ExpertChoice& choice : choices) ++next[choice.expert];
  ExpertGroups all;
  int64_t first = 0;
  for (int32_t expert = 0; expert < shape.count; ++expert) {
    const int64_t rows = next[expert];
    next[expert] = first;
    if (rows == 0) continue;
    all.groups.push_back({.expert = expert, .first = first, .rows = rows});
    first += rows;
  }
  all.row_of.resize(choices.size());
  all.places.resize(choices.size());
  for (int64_t i = 0; i < std::ssize(choices); ++i) {
    const int64_t place = next[choices[i].expert]++;
    all.places[i] = static_cast<int32_t>(place);
    all.row_of[place] = static_cast<int32_t>(i / shape.per_row);
  }
  return all;
}

}  // namespace espalier
