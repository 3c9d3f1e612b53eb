// Rows that are taken into a pass against float64.
#include <cmath>
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda::cuda_take_rows_test {
namespace {

constexpr float kEpsilon = 1e-5f;

class TakeRowsTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(TakeRowsTest);

struct Problem {
  int rows = 0, columns = 0, pieces = 1;
  int from_size = 0;  // rows of `from`; 0: rows start as zeros
  bool has_bits = false, has_norm = false;
  int splits = 0;
  std::vector<int32_t> from_rows = {}, to_rows = {};
  int first_out_row = 0, first_out_column = 0;

  int out_rows() const { return first_out_row + rows / pieces; }
  int out_columns() const { return first_out_column + pieces * columns; }
};

struct Inputs {
  std::vector<float> from, parts, bias, weight;
  std::vector<uint16_t> bits;

  explicit Inputs(const Problem& p) {
    Random random(p.rows * 31 + p.columns);
    bits = random.Bf16s(int64_t{p.from_size} * p.columns);
    from = random.Normals(int64_t{p.from_size} * p.columns);
    weight = random.Normals(int64_t{p.pieces} * p.columns);
    bias = random.Normals(p.columns);
    // The padding of the parts is never read.
    parts.assign(int64_t{p.splits} * PaddedRows(p.rows) * p.columns, NAN);
    for (int split = 0; split < p.splits; ++split) {
      for (int i = 0; i < p.rows * p.columns; ++i) {
        parts[int64_t{split} * PaddedRows(p.rows) * p.columns + i] =
            random.Normal();
      }
    }
  }

  double Sum(const Problem& p, int row, int i) const {
    const int from_row = p.from_rows.empty() ? row : p.from_rows[row];
    const int64_t at = int64_t{from_row} * p.columns + i;
    double sum = 0;
    if (p.from_size > 0) sum = p.has_bits ? Bf16ToFloat(bits[at]) : from[at];
    for (int s = 0; s < p.splits; ++s) {
      sum += parts[(int64_t{s} * PaddedRows(p.rows) + row) * p.columns + i];
    }
    return p.splits > 0 ? sum + bias[i] : sum;
  }
};

struct Outputs {
  std::vector<float> sums, normed;
  std::vector<unsigned char> out;
};

Outputs Take(ComputeDevice& device, const Problem& p, const Inputs& in) {
  const auto from = ArrayOf(device, in.from);
  const auto bits = ArrayOf(device, in.bits);
  const auto parts = ArrayOf(device, in.parts);
  const auto bias = ArrayOf(device, in.bias);
  const auto weight = ArrayOf(device, in.weight);
  const auto from_rows = ArrayOf(device, p.from_rows);
  const auto to_rows = ArrayOf(device, p.to_rows);
  const auto sums = NanArray<float>(device, p.rows * p.columns);
  const auto normed = NanArray<float>(device, p.rows * p.columns);
  const auto out = NanArray<unsigned char>(
      device,
      static_cast<int64_t>(ActivationBytes(p.out_rows(), p.out_columns())));
  const bool has_from = p.from_size > 0;
  device.Launch(TakeRowsArgs{
      .from = has_from && !p.has_bits ? from.data() : nullptr,
      .from_bits = has_from && p.has_bits ? bits.data() : nullptr,
      .from_rows = p.from_rows.empty() ? nullptr : from_rows.data(),
      .parts = {.values = parts.data(),
                .splits = p.splits,
                .padded_rows = PaddedRows(p.rows),
                .outputs = p.columns,
                .bias = p.splits > 0 ? bias.data() : nullptr},
      .rows = p.rows,
      .columns = p.columns,
      .weight = p.has_norm ? weight.data() : nullptr,
      .epsilon = kEpsilon,
      .sums = sums.data(),
      .normed = normed.data(),
      .to_rows = p.to_rows.empty() ? nullptr : to_rows.data(),
      .out = out.data(),
      .pieces = p.pieces,
      .out_block = RowBlock(p.out_rows()),
      .out_columns = p.out_columns(),
      .first_out_row = p.first_out_row,
      .first_out_column = p.first_out_column});
  return {ValuesOf(device, sums), ValuesOf(device, normed),
          ValuesOf(device, out)};
}

void ExpectTaken(const Problem& p, const Inputs& in, const Outputs& got) {
  for (int row = 0; row < p.rows; ++row) {
    double squares = 0;
    for (int i = 0; i < p.columns; ++i) {
      squares += std::pow(in.Sum(p, row, i), 2);
    }
    const double scale =
        p.has_norm ? 1 / std::sqrt(squares / p.columns + kEpsilon) : 1;
    const int piece = row % p.pieces;
    const int to = p.to_rows.empty() ? row : p.to_rows[row];
    for (int i = 0; i < p.columns; ++i) {
      const double sum = in.Sum(p, row, i);
      const double factor =
          p.has_norm ? scale * in.weight[piece * p.columns + i] : 1;
      const double wanted = sum * factor;
      const float rounded =
          Bf16ToFloat(ActivationAt(got.out, p.out_rows(), p.out_columns(),
                                   p.first_out_row + row / p.pieces,
                                   p.first_out_column + piece * p.columns + i));
      ASSERT_NEAR(rounded, wanted, std::abs(wanted) * 0.004 + 1e-5);
      if (to < 0) continue;
      const int at = to * p.columns + i;
      ASSERT_NEAR(got.sums[at], sum, std::abs(sum) * 1e-6 + 1e-5);
      ASSERT_NEAR(got.normed[at], wanted, std::abs(wanted) * 1e-5 + 1e-5);
    }
  }
}

TEST_P(TakeRowsTest, TakesAddsNormsAndPlaces) {
  const std::vector<Problem> problems = {
      // Features of a head with a norm for each tap.
      {.rows = 6,
       .columns = 128,
       .pieces = 3,
       .from_size = 6,
       .has_bits = true,
       .has_norm = true},
      // The second half of a layer's input, from rows of a product.
      {.rows = 18,
       .columns = 576,
       .has_norm = true,
       .splits = 3,
       .first_out_column = 576},
      // Outputs of parents, and rows of another sequence before these.
      {.rows = 5,
       .columns = 64,
       .from_size = 9,
       .from_rows = {8, 8, 0, 3, 3},
       .first_out_row = 3},
      // A residual stream, of which two rows are wanted.
      {.rows = 4,
       .columns = 192,
       .from_size = 4,
       .has_norm = true,
       .splits = 1,
       .to_rows = {-1, 2, -1, 0}},
      // Taps of a large target, two, four and eight quads of a thread.
      {.rows = 2, .columns = 5120, .from_size = 2, .has_bits = true},
      {.rows = 1, .columns = 12288, .from_size = 1, .has_norm = true},
      {.rows = 1, .columns = 20480, .from_size = 1, .has_bits = true},
  };
  for (const Problem& p : problems) {
    SCOPED_TRACE(p.columns);
    const Inputs in(p);
    ExpectTaken(p, in, Take(Device(), p, in));
  }
}

TEST_P(TakeRowsTest, UnwantedRowsAreNotWritten) {
  const Problem p = {
      .rows = 2, .columns = 64, .from_size = 2, .to_rows = {-1, 0}};
  const Outputs got = Take(Device(), p, Inputs(p));
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(got.sums[64 + i]));
}

// A row's bits are its own, whatever the order in which blocks run.
TEST_P(TakeRowsTest, BitsAreTheRowsAlone) {
  const Problem p = {.rows = 20,
                     .columns = 320,
                     .from_size = 20,
                     .has_norm = true,
                     .splits = 2};
  const Inputs in(p);
  const Outputs all = Take(Device(1), p, in);
  for (uint64_t seed = 2; seed < 5; ++seed) {
    EXPECT_TRUE(SameBits(Take(Device(seed), p, in).normed, all.normed));
  }
  Problem one = p;
  one.rows = 1;
  Inputs alone = in;
  for (int i = 0; i < p.columns; ++i) {
    alone.from[i] = in.from[7 * p.columns + i];
    for (int s = 0; s < 2; ++s) {
      alone.parts[(s * PaddedRows(1)) * p.columns + i] =
          in.parts[(s * PaddedRows(20) + 7) * p.columns + i];
    }
  }
  const Outputs got = Take(Device(9), one, alone);
  for (int i = 0; i < p.columns; ++i) {
    ASSERT_EQ(got.normed[i], all.normed[7 * p.columns + i]);
  }
}

}  // namespace
}  // namespace espalier::cuda::cuda_take_rows_test
