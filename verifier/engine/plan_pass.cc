#include "verifier/engine/plan_pass.h"

#include <algorithm>

namespace espalier::verifier {
namespace {

// Returns the rows that trees leave to waiting prompts.
int64_t RowsKeptForPrompts(absl::Span<const PassWork> waiting,
                           int64_t batch_rows) {
  const int64_t most = std::max<int64_t>(1, batch_rows / 4);
  int64_t wanted = 0;
  for (const PassWork& work : waiting) {
    if (work.prompt_rows > 0) wanted += work.prompt_rows + work.tree_rows;
    if (wanted >= most) return most;
  }
  return wanted;
}

// Returns the rows of the pass: where a tree waits for its round's end, prompts
// do not hold it up longer than other trees would.
int64_t RowsOfPass(absl::Span<const PassWork> waiting,
                   const PassLimits& limits) {
  const bool has_tree =
      std::any_of(waiting.begin(), waiting.end(),
                  [](const PassWork& work) { return work.prompt_rows == 0; });
  return has_tree ? limits.batch_rows : limits.prompt_rows;
}

}  // namespace

std::vector<PassShare> PlanPass(absl::Span<const PassWork> waiting,
                                const PassLimits& limits) {
  const int64_t count = static_cast<int64_t>(waiting.size());
  const int64_t kept = RowsKeptForPrompts(waiting, limits.batch_rows);
  int64_t room = RowsOfPass(waiting, limits);
  std::vector<PassShare> plan;
  for (int64_t i = 0; i < count; ++i) {
    const PassWork& work = waiting[i];
    if (work.prompt_rows > 0) continue;
    if (i > 0 && work.tree_rows > room - kept) continue;
    plan.push_back({.request = i, .with_tree = true});
    room -= work.tree_rows;
  }
  for (int64_t i = 0; i < count && room > 0; ++i) {
    const PassWork& work = waiting[i];
    if (work.prompt_rows == 0) continue;
    const int64_t cost = count > 1 ? work.prompt_row_cost : 1;
    const int64_t most =
        std::min(std::max<int64_t>(1, room / cost), limits.chain_rows);
    const int64_t most_with_tree =
        work.tree_rows == 1 ? most : std::min(most, limits.sequence_rows);
    const bool with_tree = work.prompt_rows + work.tree_rows <= most_with_tree;
    const int64_t prompt_rows = std::min(work.prompt_rows, most);
    plan.push_back(
        {.request = i, .prompt_rows = prompt_rows, .with_tree = with_tree});
    room -= prompt_rows * cost + (with_tree ? work.tree_rows : 0);
  }
  return plan;
}

}  // namespace espalier::verifier
