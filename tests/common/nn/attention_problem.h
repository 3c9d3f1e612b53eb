#ifndef ESPALIER_TESTS_COMMON_NN_ATTENTION_PROBLEM_H_
#define ESPALIER_TESTS_COMMON_NN_ATTENTION_PROBLEM_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "common/nn/kernels.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {

// Keys and values of some slots, in pages.
class KvSlots {
 public:
  KvSlots(const Kernels& kernels, KvType type, int64_t slots, int64_t head_dim)
      : kernels_(kernels), type_(type), head_dim_(head_dim) {
    const int64_t pages = (slots + kPageTokens - 1) / kPageTokens;
    // Memory that was never written must not matter.
    memory_.assign(pages * 2 * value_offset(),
                   std::numeric_limits<float>::quiet_NaN());
    for (int64_t page = 0; page < pages; ++page) {
      pages_.push_back(&memory_[page * 2 * value_offset()]);
    }
  }

  void Write(int64_t slot, const float* key, const float* value) {
    kernels_.write_kv(Panels(slot), slot % kPageTokens, key, value);
  }
  void Copy(int64_t from, int64_t to) {
    kernels_.copy_kv(Panels(from), from % kPageTokens, Panels(to),
                     to % kPageTokens);
  }
  int64_t value_offset() const { return KvPanelFloats(type_, head_dim_); }
  const float* const* pages() const { return pages_.data(); }

 private:
  KvPanels Panels(int64_t slot) {
    float* const page = pages_[slot / kPageTokens];
    return {.type = type_,
            .keys = page,
            .values = page + value_offset(),
            .head_dim = head_dim_};
  }

  const Kernels& kernels_;
  const KvType type_;
  const int64_t head_dim_;
  std::vector<float> memory_;
  std::vector<float*> pages_;
};

// One query a row, of rows after a prefix.
struct AttentionProblem {
  KvType type = KvType::kFloat32;
  int64_t head_dim = 64;
  int64_t prefix = 0;
  std::vector<std::vector<int32_t>> ancestors;  // of each row, itself last
  std::vector<float> queries;                   // [rows, head_dim]
  std::vector<float> keys;                      // [prefix + rows, head_dim]
  std::vector<float> values;
  int64_t window = 0;  // positions that a row sees, its own among them; 0: all
  float softcap = 0;   // see AttendArgs

  int64_t rows() const { return static_cast<int64_t>(ancestors.size()); }
  // Returns the first position that a row sees.
  int64_t First(int64_t row) const {
    const int64_t seen = prefix + static_cast<int64_t>(ancestors[row].size());
    return window > 0 && seen > window ? seen - window : 0;
  }
};

struct ProblemShape {
  int64_t head_dim = 64;
  int64_t prefix = 0;
  int64_t rows = 1;
  float query_scale = 1;
};

// Returns a random tree of rows.
inline AttentionProblem RandomProblem(const ProblemShape& shape,
                                      std::mt19937& random) {
  AttentionProblem p = {.head_dim = shape.head_dim, .prefix = shape.prefix};
  for (int64_t row = 0; row < shape.rows; ++row) {
    std::vector<int32_t> seen;
    if (row > 0) seen = p.ancestors[random() % row];
    seen.push_back(static_cast<int32_t>(row));
    p.ancestors.push_back(seen);
  }
  auto values = [&](int64_t count, float scale) {
    return UniformValues(count * shape.head_dim, scale, random);
  };
  p.queries = values(shape.rows, shape.query_scale);
  p.keys = values(shape.prefix + shape.rows, 1);
  p.values = values(shape.prefix + shape.rows, 1);
  return p;
}

// One call for all, or steps in parts: of two pages, one query, kAttendDims.
inline void AttendInParts(const Kernels& kernels, AttendArgs args) {
  const auto run = [&](AttendStep step, int64_t size, int64_t most) {
    for (int64_t begin = 0; begin < size; begin += most) {
      args.part = {
          .step = step, .begin = begin, .end = std::min(begin + most, size)};
      std::vector<float> panels(AttendPanels(args));
      args.panels = panels.data();
      kernels.attend(args);
    }
  };
  run(AttendStep::kQueries, args.num_queries, 1);
  run(AttendStep::kScores, AttendPages(args), 2);
  run(AttendStep::kWeights, args.num_queries, 1);
  run(AttendStep::kValues, args.head_dim, kAttendDims);
}

// Queries begin .. end - 1 of `p`, its K/V in `slots`, in one call unless
// `in_parts`: [end - begin, head_dim]. The prefix begins at page `first_page`,
// before which no query sees anything.
inline std::vector<float> Attend(const Kernels& kernels,
                                 const AttentionProblem& p,
                                 const KvSlots& slots, int64_t begin,
                                 int64_t end, int64_t first_page = 0,
                                 bool in_parts = false) {
  std::vector<float> out((end - begin) * p.head_dim);
  std::vector<AttendQuery> queries;
  for (int64_t row = begin; row < end; ++row) {
    const auto& seen = p.ancestors[row];
    queries.push_back({.ancestors = seen.data(),
                       .num_ancestors = static_cast<int64_t>(seen.size()),
                       .first = p.First(row) - first_page * kPageTokens,
                       .out = &out[(row - begin) * p.head_dim]});
  }
  AttendArgs args = {.type = p.type,
                     .queries = &p.queries[begin * p.head_dim],
                     .query = queries.data(),
                     .num_queries = end - begin,
                     .head_dim = p.head_dim,
                     .prefix = p.prefix - first_page * kPageTokens,
                     .rows = p.rows(),
                     .softcap = p.softcap,
                     .pages = slots.pages() + first_page,
                     .key_offset = 0,
                     .value_offset = slots.value_offset()};
  std::vector<float> scratch(AttendScratch(args));
  args.scratch = scratch.data();
  if (in_parts) {
    AttendInParts(kernels, args);
    return out;
  }
  std::vector<float> panels(AttendPanels(args));
  args.panels = panels.data();
  kernels.attend(args);
  return out;
}

inline std::vector<float> Attend(const Kernels& kernels,
                                 const AttentionProblem& p, int64_t begin,
                                 int64_t end, bool in_parts = false) {
  KvSlots slots(kernels, p.type, p.prefix + p.rows(), p.head_dim);
  for (int64_t slot = 0; slot < p.prefix + p.rows(); ++slot) {
    slots.Write(slot, &p.keys[slot * p.head_dim], &p.values[slot * p.head_dim]);
  }
  return Attend(kernels, p, slots, begin, end, /*first_page=*/0, in_parts);
}

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_ATTENTION_PROBLEM_H_
