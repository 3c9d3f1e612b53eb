#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

// Keys and values of some slots, in pages.
class Cache {
 public:
  Cache(int64_t slots, int64_t head_dim) : head_dim_(head_dim) {
    const int64_t pages = (slots + kPageTokens - 1) / kPageTokens;
    // What was never written must not matter.
    memory_.assign(pages * 2 * kPageTokens * head_dim,
                   std::numeric_limits<float>::quiet_NaN());
    for (int64_t page = 0; page < pages; ++page) {
      pages_.push_back(&memory_[page * 2 * kPageTokens * head_dim]);
    }
  }

  void Write(int64_t slot, const float* key, const float* value) {
    for (int64_t i = 0; i < head_dim_; ++i) {
      *Key(slot, i) = key[i];
      *Value(slot, i) = value[i];
    }
  }
  float* Key(int64_t slot, int64_t i) {
    return pages_[slot / kPageTokens] + i * kPageTokens + slot % kPageTokens;
  }
  float* Value(int64_t slot, int64_t i) {
    return pages_[slot / kPageTokens] + value_offset() +
           slot % kPageTokens * head_dim_ + i;
  }
  int64_t value_offset() const { return kPageTokens * head_dim_; }
  const float* const* pages() const { return pages_.data(); }

 private:
  const int64_t head_dim_;
  std::vector<float> memory_;
  std::vector<float*> pages_;
};

struct Problem {
  int64_t head_dim = 64;
  int64_t prefix = 0;
  std::vector<std::vector<int32_t>> ancestors;  // of each row, itself last
  std::vector<float> queries;                   // [rows, head_dim]
  std::vector<float> keys;                      // [prefix + rows, head_dim]
  std::vector<float> values;

  int64_t rows() const { return static_cast<int64_t>(ancestors.size()); }
};

class AttentionTest : public KernelTest {
 protected:
  Problem RandomProblem(int64_t head_dim, int64_t prefix, int64_t rows,
                        float scale = 1) {
    Problem p = {.head_dim = head_dim, .prefix = prefix};
    for (int32_t row = 0; row < rows; ++row) {
      std::vector<int32_t> seen;
      if (row > 0) seen = p.ancestors[random_() % row];
      seen.push_back(row);
      p.ancestors.push_back(seen);
    }
    p.queries = Random(rows * head_dim, scale);
    p.keys = Random((prefix + rows) * head_dim);
    p.values = Random((prefix + rows) * head_dim);
    return p;
  }

  // Queries begin .. end - 1 in one call: [end - begin, head_dim].
  std::vector<float> Run(const Problem& p, int64_t begin, int64_t end) {
    Cache cache(p.prefix + p.rows(), p.head_dim);
    for (int64_t slot = 0; slot < p.prefix + p.rows(); ++slot) {
      cache.Write(slot, &p.keys[slot * p.head_dim],
                  &p.values[slot * p.head_dim]);
    }
    std::vector<float> out((end - begin) * p.head_dim);
    std::vector<AttendQuery> queries;
    for (int64_t row = begin; row < end; ++row) {
      const auto& seen = p.ancestors[row];
      queries.push_back({.ancestors = seen.data(),
                         .num_ancestors = static_cast<int64_t>(seen.size()),
                         .out = &out[(row - begin) * p.head_dim]});
    }
    AttendArgs args = {.queries = &p.queries[begin * p.head_dim],
                       .query = queries.data(),
                       .num_queries = end - begin,
                       .head_dim = p.head_dim,
                       .prefix = p.prefix,
                       .rows = p.rows(),
                       .pages = cache.pages(),
                       .key_offset = 0,
                       .value_offset = cache.value_offset()};
    std::vector<float> scratch(AttendScratch(args));
    args.scratch = scratch.data();
    kernels().attend(args);
    return out;
  }

  static std::vector<double> Expected(const Problem& p, int64_t row) {
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < p.prefix; ++slot) slots.push_back(slot);
    for (int32_t seen : p.ancestors[row]) slots.push_back(p.prefix + seen);
    std::vector<double> weights;
    for (int64_t slot : slots) {
      double score = 0;
      for (int64_t i = 0; i < p.head_dim; ++i) {
        score += double{p.queries[row * p.head_dim + i]} *
                 p.keys[slot * p.head_dim + i];
      }
      weights.push_back(score);
    }
    const double max = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    std::vector<double> out(p.head_dim);
    for (size_t j = 0; j < slots.size(); ++j) {
      for (int64_t i = 0; i < p.head_dim; ++i) {
        out[i] += weights[j] / sum * p.values[slots[j] * p.head_dim + i];
      }
    }
    return out;
  }
};
ESPALIER_TEST_ALL_BACKENDS(AttentionTest);

TEST_P(AttentionTest, AgreesWithTheDefinitionInFloat64) {
  for (int64_t head_dim : {8, 24, 64, 80}) {
    for (int64_t prefix : {0, 1, 31, 32, 33, 200}) {
      for (int64_t rows : {1, 2, 7, 12, 40}) {
        const Problem p = RandomProblem(head_dim, prefix, rows);
        const std::vector<float> out = Run(p, 0, rows);
        for (int64_t row = 0; row < rows; ++row) {
          const std::vector<double> expected = Expected(p, row);
          for (int64_t i = 0; i < head_dim; ++i) {
            ASSERT_NEAR(out[row * head_dim + i], expected[i], 5e-6)
                << "row " << row << " of " << rows << ", prefix " << prefix;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, SharpScoresAreExact) {
  // Scores differ by hundreds: one key wins, nothing overflows.
  const Problem p = RandomProblem(64, 50, 6, /*scale=*/1000);
  const std::vector<float> out = Run(p, 0, 6);
  for (int64_t row = 0; row < 6; ++row) {
    const std::vector<double> expected = Expected(p, row);
    for (int64_t i = 0; i < 64; ++i) {
      ASSERT_NEAR(out[row * 64 + i], expected[i], 1e-3);
    }
  }
}

TEST_P(AttentionTest, QueryIsTheSameInAnyCompany) {
  const Problem p = RandomProblem(64, 77, 30);
  const std::vector<float> all = Run(p, 0, 30);
  for (int64_t begin = 0; begin < 30; begin += 4) {
    for (int64_t end = begin + 1; end <= 30; end += 3) {
      const std::vector<float> some = Run(p, begin, end);
      ASSERT_TRUE(
          std::equal(some.begin(), some.end(), all.begin() + begin * 64))
          << begin << " .. " << end;
    }
  }
}

// A row of a tree gets the bits that it gets when its path is in the prefix.
TEST_P(AttentionTest, TreePathEqualsSequentialDecoding) {
  for (int64_t prefix : {0, 5, 31, 60, 95}) {
    const Problem tree = RandomProblem(24, prefix, 50);
    const std::vector<float> out = Run(tree, 0, 50);
    for (int64_t row = 0; row < 50; ++row) {
      const std::vector<int32_t>& path = tree.ancestors[row];
      Problem alone = {.head_dim = 24,
                       .prefix = prefix + static_cast<int64_t>(path.size()) - 1,
                       .ancestors = {{0}}};
      auto take = [&](const std::vector<float>& from, int64_t slot,
                      std::vector<float>& to) {
        to.insert(to.end(), from.begin() + slot * 24,
                  from.begin() + (slot + 1) * 24);
      };
      take(tree.queries, row, alone.queries);
      for (int64_t slot = 0; slot < prefix; ++slot) {
        take(tree.keys, slot, alone.keys);
        take(tree.values, slot, alone.values);
      }
      for (int32_t seen : path) {
        take(tree.keys, prefix + seen, alone.keys);
        take(tree.values, prefix + seen, alone.values);
      }
      const std::vector<float> one = Run(alone, 0, 1);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), out.begin() + row * 24))
          << "row " << row << ", prefix " << prefix;
    }
  }
}

TEST_P(AttentionTest, RowsThatAreNotSeenLeaveNoTrace) {
  Problem p = {.head_dim = 8, .prefix = 3, .ancestors = {{0}, {1}, {0, 2}}};
  p.queries = Random(3 * 8);
  p.keys = Random(6 * 8);
  p.values = Random(6 * 8);
  const std::vector<float> clean = Run(p, 0, 3);
  for (int64_t i = 0; i < 8; ++i) {  // row 1, which only itself sees
    p.keys[4 * 8 + i] = std::numeric_limits<float>::quiet_NaN();
    p.values[4 * 8 + i] = std::numeric_limits<float>::infinity();
  }
  const std::vector<float> out = Run(p, 0, 3);
  for (int64_t row : {0, 2}) {
    EXPECT_TRUE(std::equal(out.begin() + row * 8, out.begin() + row * 8 + 8,
                           clean.begin() + row * 8));
  }
  EXPECT_TRUE(std::isnan(out[8]));
}

}  // namespace
}  // namespace espalier::nn
