#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/nn/amx_inl.h"
#include "gmock/gmock.h"
#include "tests/common/nn/attention_problem.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

// A backend, and what its pages hold.
struct AttentionCase {
  const Kernels* kernels = nullptr;
  KvType type = KvType::kFloat32;
};

std::vector<AttentionCase> AttentionCases() {
  std::vector<AttentionCase> cases;
  for (const Kernels* kernels : BackendsAndAmxModel()) {
    cases.push_back({kernels, KvType::kFloat32});
    cases.push_back({kernels, KvType::kBf16});
    // The tiles do not read it.
    if (kernels == &AmxModelKernels()) continue;
    cases.push_back({kernels, KvType::kInt8});
  }
  return cases;
}

std::string SuffixOf(KvType type) {
  switch (type) {
    case KvType::kFloat32:
      return "";
    case KvType::kBf16:
      return "Bf16";
    case KvType::kInt8:
      return "Int8";
  }
  return "";
}

std::string AttentionCaseName(
    const ::testing::TestParamInfo<AttentionCase>& info) {
  return IdentifierOf(info.param.kernels->name) + SuffixOf(info.param.type);
}

class AttentionTest : public KernelValues,
                      public ::testing::TestWithParam<AttentionCase> {
 protected:
  using Problem = AttentionProblem;

  const Kernels& kernels() const { return *GetParam().kernels; }

  // Returns a problem whose numbers the pages can hold.
  Problem RandomProblem(const ProblemShape& shape, std::mt19937& random) {
    Problem p = nn::RandomProblem(shape, random);
    p.type = GetParam().type;
    if (p.type == KvType::kFloat32) return p;
    for (auto* values : {&p.queries, &p.keys, &p.values}) {
      for (float& x : *values) x = Bf16ToFloat(FloatToBf16(x));
    }
    if (p.type == KvType::kInt8) {
      TakeCodes(p.head_dim, p.keys);
      TakeCodes(p.head_dim, p.values);
    }
    return p;
  }
  // Whole numbers up to 127, which one of them is, of a scale: another one for
  // each slot.
  static void TakeCodes(int64_t head_dim, std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t dims = static_cast<size_t>(head_dim), slot = i / dims;
      const float code =
          i % dims == slot % dims ? 127 : std::round(values[i] * 127);
      values[i] = std::ldexp(code, -7 - static_cast<int>(slot % 3));
    }
  }
  // Weights of the values may be rounded to bf16.
  double Error() const {
    const bool exact = GetParam().type == KvType::kFloat32;
    return 5e-6 + 2 * OperandError(exact ? kernels().exact_operand
                                         : kernels().fast_operand);
  }

  std::vector<float> Run(const Problem& p, int64_t begin, int64_t end) {
    return Attend(kernels(), p, begin, end);
  }

  // Returns the sizes among them that the backend takes.
  std::vector<int64_t> HeadDims(std::vector<int64_t> dims) const {
    if (&kernels() == &AmxModelKernels()) {
      std::erase_if(dims, [](int64_t d) { return d % kAmxInputs != 0; });
    }
    return dims;
  }

  // Row `row` after its path was committed.
  static Problem PathAlone(const Problem& tree, int64_t row) {
    const std::vector<int32_t>& path = tree.ancestors[row];
    const int64_t dims = tree.head_dim;
    Problem alone = {
        .type = tree.type,
        .head_dim = dims,
        .prefix = tree.prefix + static_cast<int64_t>(path.size()) - 1,
        .ancestors = {{0}}};
    auto take = [&](const std::vector<float>& from, int64_t index,
                    std::vector<float>& to) {
      to.insert(to.end(), from.begin() + index * dims,
                from.begin() + (index + 1) * dims);
    };
    take(tree.queries, row, alone.queries);
    auto take_slot = [&](int64_t slot) {
      take(tree.keys, slot, alone.keys);
      take(tree.values, slot, alone.values);
    };
    for (int64_t slot = 0; slot < tree.prefix; ++slot) take_slot(slot);
    for (int32_t seen : path) take_slot(tree.prefix + seen);
    alone.window = tree.window;
    alone.softcap = tree.softcap;
    return alone;
  }

  static std::vector<double> Expected(const Problem& p, int64_t row) {
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < p.prefix; ++slot) slots.push_back(slot);
    for (int32_t seen : p.ancestors[row]) slots.push_back(p.prefix + seen);
    slots.erase(slots.begin(), slots.begin() + p.First(row));
    std::vector<double> weights;
    for (int64_t slot : slots) {
      double score = 0;
      for (int64_t i = 0; i < p.head_dim; ++i) {
        score += double{p.queries[row * p.head_dim + i]} *
                 p.keys[slot * p.head_dim + i];
      }
      weights.push_back(p.softcap > 0 ? p.softcap * std::tanh(score / p.softcap)
                                      : score);
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
INSTANTIATE_TEST_SUITE_P(Cases, AttentionTest,
                         ::testing::ValuesIn(AttentionCases()),
                         AttentionCaseName);

TEST_P(AttentionTest, AgreesWithTheDefinitionInFloat64) {
  for (int64_t head_dim : HeadDims({8, 24, 64, 80})) {
    for (int64_t prefix : {0, 1, 31, 32, 33, 200}) {
      for (int64_t rows : {1, 2, 7, 12, 40}) {
        const Problem p = RandomProblem(
            {.head_dim = head_dim, .prefix = prefix, .rows = rows}, random_);
        const std::vector<float> out = Run(p, 0, rows);
        for (int64_t row = 0; row < rows; ++row) {
          const std::vector<double> expected = Expected(p, row);
          for (int64_t i = 0; i < head_dim; ++i) {
            ASSERT_NEAR(out[row * head_dim + i], expected[i], Error())
                << "row " << row << " of " << rows << ", prefix " << prefix;
          }
        }
      }
    }
  }
}

// A row that sees itself alone answers its value as the pages hold it.
TEST_P(AttentionTest, ValueIsRoundedToTheTypeOfThePages) {
  for (int64_t dims : HeadDims({8, 64})) {
    for (float scale : {1e-35f, 1e-3f, 1.0f, 1e30f}) {
      Problem p = nn::RandomProblem({.head_dim = dims}, random_);
      p.type = GetParam().type;
      for (float& x : p.values) x *= scale;
      const float most = std::abs(*std::max_element(
          p.values.begin(), p.values.end(),
          [](float a, float b) { return std::abs(a) < std::abs(b); }));
      const std::vector<float> out = Run(p, 0, 1);
      for (int64_t i = 0; i < dims; ++i) {
        // The error is at most that of bf16, which may have no numbers below
        // the normal ones.
        double error = std::abs(p.values[i]) / 256 + 1.2e-38;
        if (p.type == KvType::kInt8)
          error += scale < 1e-30f ? most : most / 254;
        ASSERT_NEAR(out[i], p.values[i], error * 1.001) << dims << ": " << i;
      }
    }
  }
}

TEST_P(AttentionTest, SharpScoresAreExact) {
  // Scores differ by hundreds: one key wins, nothing overflows.
  const Problem p =
      RandomProblem({.prefix = 50, .rows = 6, .query_scale = 1000}, random_);
  const std::vector<float> out = Run(p, 0, 6);
  for (int64_t row = 0; row < 6; ++row) {
    const std::vector<double> expected = Expected(p, row);
    for (int64_t i = 0; i < 64; ++i) {
      ASSERT_NEAR(out[row * 64 + i], expected[i], 1e-3 + Error());
    }
  }
}

TEST_P(AttentionTest, QueryIsTheSameInAnyCompany) {
  const Problem p = RandomProblem({.prefix = 77, .rows = 30}, random_);
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

// Threads may share a call.
TEST_P(AttentionTest, PartsGiveTheBitsOfTheWhole) {
  for (int64_t dims : HeadDims({24, 64, 80, 96})) {
    for (int64_t prefix : {0, 31, 64, 165}) {
      for (int64_t rows : {1, 3, 12}) {
        Problem p = RandomProblem(
            {.head_dim = dims, .prefix = prefix, .rows = rows}, random_);
        for (int64_t window : {0, 40}) {
          p.window = window;
          ASSERT_EQ(Attend(kernels(), p, 0, rows, /*in_parts=*/true),
                    Run(p, 0, rows))
              << rows << " rows, prefix " << prefix << ", dims " << dims
              << ", window " << window;
        }
      }
    }
  }
}

// A row of a tree gets the bits that it gets when its path is in the prefix.
TEST_P(AttentionTest, TreePathEqualsSequentialDecoding) {
  for (int64_t dims : HeadDims({24, 32})) {
    for (int64_t prefix : {0, 5, 31, 60, 95}) {
      const Problem tree = RandomProblem(
          {.head_dim = dims, .prefix = prefix, .rows = 50}, random_);
      const std::vector<float> out = Run(tree, 0, 50);
      for (int64_t row = 0; row < 50; ++row) {
        const std::vector<float> one = Run(PathAlone(tree, row), 0, 1);
        ASSERT_TRUE(
            std::equal(one.begin(), one.end(), out.begin() + row * dims))
            << "row " << row << ", prefix " << prefix << ", dims " << dims;
      }
    }
  }
}

// Windows that end within a page, within a tree, and before the tree.
TEST_P(AttentionTest, RowsSeeTheirWindow) {
  const int64_t dims = HeadDims({24, 32}).back();
  for (int64_t window : {1, 3, 31, 32, 33, 70}) {
    for (int64_t prefix : {0, 5, 64, 150}) {
      Problem p = RandomProblem(
          {.head_dim = dims, .prefix = prefix, .rows = 30}, random_);
      p.window = window;
      const std::vector<float> out = Run(p, 0, 30);
      for (int64_t row = 0; row < 30; ++row) {
        const std::vector<double> expected = Expected(p, row);
        for (int64_t i = 0; i < dims; ++i) {
          ASSERT_NEAR(out[row * dims + i], expected[i], Error())
              << "row " << row << ", prefix " << prefix << ", window "
              << window;
        }
        const std::vector<float> one = Run(PathAlone(p, row), 0, 1);
        ASSERT_TRUE(
            std::equal(one.begin(), one.end(), out.begin() + row * dims))
            << "row " << row << ", prefix " << prefix << ", window " << window;
      }
    }
  }
}

// Scores of up to 30, of which most are cut to 4.
TEST_P(AttentionTest, SoftcapsBoundTheScores) {
  const int64_t dims = HeadDims({24, 32}).back();
  for (int64_t prefix : {0, 5, 64, 150}) {
    Problem p = RandomProblem(
        {.head_dim = dims, .prefix = prefix, .rows = 30, .query_scale = 4},
        random_);
    p.softcap = 4;
    p.window = 40;
    const std::vector<float> out = Run(p, 0, 30);
    for (int64_t row = 0; row < 30; ++row) {
      const std::vector<double> expected = Expected(p, row);
      for (int64_t i = 0; i < dims; ++i) {
        // As many times as the queries are larger.
        ASSERT_NEAR(out[row * dims + i], expected[i], 4 * Error())
            << "row " << row << ", prefix " << prefix;
      }
      const std::vector<float> one = Run(PathAlone(p, row), 0, 1);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), out.begin() + row * dims))
          << "row " << row << ", prefix " << prefix;
    }
    p.softcap = 0;
    EXPECT_NE(Run(p, 0, 30), out);
  }
}

// Pages before every window may be left out.
TEST_P(AttentionTest, PagesThatNobodySeesChangeNoBit) {
  Problem p =
      RandomProblem({.head_dim = 32, .prefix = 150, .rows = 9}, random_);
  p.window = 40;
  KvSlots slots(kernels(), p.type, 159, 32);
  for (int64_t slot = 96; slot < 159; ++slot) {
    slots.Write(slot, &p.keys[slot * 32], &p.values[slot * 32]);
  }
  EXPECT_EQ(Attend(kernels(), p, slots, 0, 9, /*first_page=*/3), Run(p, 0, 9));
}

// What keeping a path does to its rows.
TEST_P(AttentionTest, CopiedSlotsAreWhatWasWritten) {
  const Problem p =
      RandomProblem({.head_dim = 32, .prefix = 40, .rows = 3}, random_);
  KvSlots slots(kernels(), p.type, 200, p.head_dim);
  for (int64_t slot = 0; slot < 43; ++slot) {
    const int64_t elsewhere = 199 - slot * 3;
    slots.Write(elsewhere, &p.keys[slot * 32], &p.values[slot * 32]);
    slots.Copy(elsewhere, slot);
  }
  EXPECT_EQ(Attend(kernels(), p, slots, 0, 3), Run(p, 0, 3));
}

TEST_P(AttentionTest, RowsThatAreNotSeenLeaveNoTrace) {
  const int64_t dims = HeadDims({8, 32}).front();
  Problem p = {.type = GetParam().type,
               .head_dim = dims,
               .prefix = 3,
               .ancestors = {{0}, {1}, {0, 2}}};
  p.queries = Random(3 * dims);
  p.keys = Random(6 * dims);
  p.values = Random(6 * dims);
  const std::vector<float> clean = Run(p, 0, 3);
  for (int64_t i = 0; i < dims; ++i) {  // row 1, which only itself sees
    p.keys[4 * dims + i] = std::numeric_limits<float>::quiet_NaN();
    p.values[4 * dims + i] = std::numeric_limits<float>::infinity();
  }
  const std::vector<float> out = Run(p, 0, 3);
  for (int64_t row : {0, 2}) {
    EXPECT_TRUE(std::equal(out.begin() + row * dims,
                           out.begin() + (row + 1) * dims,
                           clean.begin() + row * dims));
  }
  EXPECT_TRUE(std::isnan(out[dims]));
}

}  // namespace
}  // namespace espalier::nn
