#ifndef ESPALIER_COMMON_MODEL_NATIVE_EXPERT_ROUTING_H_
#define ESPALIER_COMMON_MODEL_NATIVE_EXPERT_ROUTING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/model/files/layer_shape.h"

namespace espalier {

// An expert of a row, and what its output is multiplied by.
struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;
};

// Chooses a row's experts as ExpertsShape says, likeliest first. logits:
// [shape.count], of the router; one that is not a number is chosen last. out:
// [shape.per_row].
void ChooseExperts(const ExpertsShape& shape, absl::Span<const float> logits,
                   absl::Span<ExpertChoice> out);

// The rows of a pass, grouped by expert: every choice of a row has a place,
// places of one expert follow each other, and rows ascend within them.
struct ExpertGroups {
  struct Group {
    int32_t expert = 0;
    int64_t first = 0;  // place
    int64_t rows = 0;
  };
  std::vector<Group> groups;    // of the experts that have rows, ascending
  std::vector<int32_t> row_of;  // [places]
  std::vector<int32_t> places;  // [rows, per_row] of the choices
};

// choices: [rows, shape.per_row].
ExpertGroups GroupByExpert(const ExpertsShape& shape,
                           absl::Span<const ExpertChoice> choices);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_EXPERT_ROUTING_H_
