// Rows that are sent to experts, multiplied by them, and added again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class CudaMixtureTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaMixtureTest);

struct Choice {
  int expert;
  double weight;
};

// A layer of experts and rows for it, which are exact in bf16.
struct Mixture {
  int rows, hidden, ffn, experts, per_row;
  bool sum_to_one = true;
  std::vector<uint16_t> x;
  std::vector<float> router;
  std::vector<std::vector<uint16_t>> gates, values, downs;  // by expert

  Mixture(int r, int h, int f, int e, int k, uint64_t seed = 1)
      : rows(r), hidden(h), ffn(f), experts(e), per_row(k) {
    Random random(seed);
    const auto matrix = [&](int outputs, int inputs) {
      std::vector<uint16_t> w;
      for (float weight :
           random.Normals(int64_t{outputs} * inputs, 1 / std::sqrt(inputs))) {
        w.push_back(FloatToBf16(weight));
      }
      return w;
    };
    x = random.Bf16s(int64_t{rows} * hidden);
    router = random.Normals(int64_t{experts} * hidden, 2 / std::sqrt(hidden));
    for (int i = 0; i < experts; ++i) {
      gates.push_back(matrix(ffn, hidden));
      values.push_back(matrix(ffn, hidden));
      downs.push_back(matrix(hidden, ffn));
    }
  }

  // Returns the row alone.
  Mixture Row(int row) const {
    Mixture one = *this;
    one.rows = 1;
    one.x.assign(x.begin() + row * hidden, x.begin() + (row + 1) * hidden);
    return one;
  }
  // Gives an expert the router's weights of another.
  void MakeAlike(int expert, int other) {
    std::copy_n(router.begin() + other * hidden, hidden,
                router.begin() + expert * hidden);
  }

  double X(int row, int i) const { return Bf16ToFloat(x[row * hidden + i]); }
  double Logit(int row, int expert) const {
    double sum = 0;
    for (int i = 0; i < hidden; ++i)
      sum += X(row, i) * router[expert * hidden + i];
    return sum;
  }
  std::vector<Choice> ChoicesOf(int row) const {
    std::vector<double> logits;
    for (int i = 0; i < experts; ++i) logits.push_back(Logit(row, i));
    std::vector<int> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });
    double all = 0, chosen = 0;
    for (double logit : logits) all += std::exp(logit);
    for (int i = 0; i < per_row; ++i) chosen += std::exp(logits[order[i]]);
    std::vector<Choice> choices;
    for (int i = 0; i < per_row; ++i) {
      choices.push_back(
          {order[i], std::exp(logits[order[i]]) / (sum_to_one ? chosen : all)});
    }
    return choices;
  }
  std::vector<double> Exact(int row) const {
    std::vector<double> sum(hidden);
    for (const auto& [expert, weight] : ChoicesOf(row)) {
      std::vector<double> inner(ffn);
      for (int j = 0; j < ffn; ++j) {
        double gate = 0, value = 0;
        for (int i = 0; i < hidden; ++i) {
          gate += X(row, i) * Bf16ToFloat(gates[expert][j * hidden + i]);
          value += X(row, i) * Bf16ToFloat(values[expert][j * hidden + i]);
        }
        inner[j] = gate / (1 + std::exp(-gate)) * value;
      }
      for (int i = 0; i < hidden; ++i) {
        double y = 0;
        for (int j = 0; j < ffn; ++j) {
          y += inner[j] * Bf16ToFloat(downs[expert][i * ffn + j]);
        }
        sum[i] += weight * y;
      }
    }
    return sum;
  }

  // The outputs of all experts, one after another.
  std::vector<unsigned char> PackedGateUp() const {
    std::vector<uint16_t> w(int64_t{experts} * 2 * ffn * hidden);
    for (int e = 0; e < experts; ++e) {
      for (int j = 0; j < ffn; ++j) {
        std::copy_n(&gates[e][j * hidden], hidden,
                    &w[(int64_t{e} * 2 * ffn + GatePlace(j)) * hidden]);
        std::copy_n(&values[e][j * hidden], hidden,
                    &w[(int64_t{e} * 2 * ffn + GatedValuePlace(j)) * hidden]);
      }
    }
    return PackWeights(w, experts * 2 * ffn, hidden);
  }
  std::vector<unsigned char> PackedDown() const {
    std::vector<uint16_t> w;
    for (const auto& down : downs) w.insert(w.end(), down.begin(), down.end());
    return PackWeights(w, experts * hidden, ffn);
  }
};

struct Ran {
  std::vector<float> sums;  // [rows, hidden]
  std::vector<ExpertChoice> choices;
  std::vector<ExpertItem> items;
};

// Runs all kernels of a layer; `block`: 0 is that of ExpertBlock.
Ran RunLayer(ComputeDevice& device, const Mixture& m, int block = 0) {
  const int num_choices = m.rows * m.per_row;
  if (block == 0) block = ExpertBlock(m.rows, m.per_row, m.experts);
  const int num_items = ExpertItems(num_choices, m.experts, block);
  const int64_t places = int64_t{num_items} * block;
  std::vector<float> wide;
  for (uint16_t x : m.x) wide.push_back(Bf16ToFloat(x));
  const auto x = ArrayOf(device, wide);
  const auto router = ArrayOf(device, m.router);
  const auto rows = ArrayOf(device, PackActivations(m.x, m.rows, m.hidden));
  const auto gate_up = ArrayOf(device, m.PackedGateUp());
  const auto down = ArrayOf(device, m.PackedDown());
  const auto choices = NanArray<ExpertChoice>(device, num_choices);
  const auto items = NanArray<ExpertItem>(device, num_items);
  const auto placed = NanArray<unsigned char>(device, 2 * places * m.hidden);
  const auto gated = NanArray<unsigned char>(device, 2 * places * m.ffn);
  const auto outputs = NanArray<float>(device, places * m.hidden);
  const auto sums = NanArray<float>(device, int64_t{m.rows} * m.hidden);
  device.Launch(RouteArgs{.x = x.data(),
                          .router = router.data(),
                          .rows = m.rows,
                          .hidden = m.hidden,
                          .experts = m.experts,
                          .per_row = m.per_row,
                          .weights_sum_to_one = m.sum_to_one,
                          .choices = choices.data()});
  device.Launch(GroupRowsArgs{.choices = choices.data(),
                              .num_choices = num_choices,
                              .experts = m.experts,
                              .block = block,
                              .items = items.data(),
                              .num_items = num_items});
  device.Launch(PlaceRowsArgs{.activations = rows.data(),
                              .rows = m.rows,
                              .columns = m.hidden,
                              .choices = choices.data(),
                              .per_row = m.per_row,
                              .out = placed.data(),
                              .out_block = block});
  ExpertProductArgs product = {
      .product = {.weights = gate_up.data(),
                  .activations = placed.data(),
                  .inputs = m.hidden,
                  .outputs = 2 * m.ffn,
                  .gated = gated.data(),
                  .undivided = true},
      .expert_bytes = int64_t{2} * 2 * m.ffn * m.hidden,
      .items = items.data(),
      .num_items = num_items,
      .block = block};
  device.Launch(product);
  product.product.weights = down.data();
  product.product.activations = gated.data();
  product.product.inputs = m.ffn;
  product.product.outputs = m.hidden;
  product.product.gated = nullptr;
  product.product.parts = outputs.data();
  product.expert_bytes /= 2;
  device.Launch(product);
  device.Launch(TakeRowsArgs{.parts = {.values = outputs.data(),
                                       .splits = 1,
                                       .padded_rows = static_cast<int>(places),
                                       .outputs = m.hidden,
                                       .choices = choices.data(),
                                       .per_row = m.per_row},
                             .rows = m.rows,
                             .columns = m.hidden,
                             .sums = sums.data()});
  return {ValuesOf(device, sums), ValuesOf(device, choices),
          ValuesOf(device, items)};
}

void ExpectExact(const Mixture& m, const Ran& ran) {
  RelativeError error;
  for (int row = 0; row < m.rows; ++row) {
    const std::vector<Choice> wanted = m.ChoicesOf(row);
    for (int i = 0; i < m.per_row; ++i) {
      const ExpertChoice& choice = ran.choices[row * m.per_row + i];
      ASSERT_EQ(choice.expert, wanted[i].expert) << row << ", choice " << i;
      ASSERT_NEAR(choice.weight, wanted[i].weight, 1e-5);
    }
    const std::vector<double> sums = m.Exact(row);
    for (int i = 0; i < m.hidden; ++i) {
      error.Add(ran.sums[row * m.hidden + i], sums[i]);
    }
  }
  EXPECT_LT(error.value(), 6e-3);  // inner rows are rounded to bf16
}

TEST_P(CudaMixtureTest, IsThatOfFloat64) {
  for (Mixture m :
       {Mixture(1, 64, 64, 4, 2), Mixture(7, 128, 64, 6, 2),
        Mixture(33, 64, 96 * 2, 9, 3), Mixture(40, 192, 64, 2, 2)}) {
    SCOPED_TRACE(m.rows);
    ExpectExact(m, RunLayer(Device(), m));
    m.sum_to_one = false;
    ExpectExact(m, RunLayer(Device(2), m));
  }
}

TEST_P(CudaMixtureTest, OfEqualLogitsTheLowerExpertIsChosen) {
  Mixture m(12, 64, 64, 8, 2, /*seed=*/3);
  m.MakeAlike(6, 1);
  m.MakeAlike(4, 1);
  const Ran ran = RunLayer(Device(), m);
  ExpectExact(m, ran);
  int lower = 0;
  for (const ExpertChoice& choice : ran.choices) {
    EXPECT_NE(choice.expert, 6);
    lower += choice.expert == 1;
  }
  EXPECT_GT(lower, 0);
}

TEST_P(CudaMixtureTest, ALogitThatIsNoNumberIsChosenLast) {
  Mixture m(5, 64, 64, 4, 3);
  m.router[0] = std::numeric_limits<float>::quiet_NaN();
  const Ran ran = RunLayer(Device(), m);
  for (const ExpertChoice& choice : ran.choices) EXPECT_NE(choice.expert, 0);
}

// With one expert, with experts that have no row, and with more rows on one
// than a block has.
TEST_P(CudaMixtureTest, RowsOfAnExpertFollowEachOther) {
  for (int block : {16, 64}) {
    Mixture m(150, 64, 64, 5, 1, /*seed=*/4);
    for (int expert : {2, 3, 4}) m.MakeAlike(expert, 1);  // have no rows
    const Ran ran = RunLayer(Device(), m, block);
    ExpectExact(m, ran);
    std::vector<int> next(m.experts, -1);
    for (const ExpertChoice& choice : ran.choices) {
      ASSERT_LT(choice.expert, 2);
      const ExpertItem& item = ran.items[choice.place / block];
      EXPECT_EQ(item.expert, choice.expert);
      EXPECT_LT(choice.place % block, item.rows);
      int& place = next[choice.expert];
      EXPECT_TRUE(place < 0 || choice.place == place);
      place = choice.place + 1;
    }
    int rows = 0;
    for (const ExpertItem& item : ran.items) {
      ASSERT_TRUE(0 <= item.rows && item.rows <= block);
      rows += item.rows;
    }
    EXPECT_EQ(rows, m.rows);
  }
}

// A row's bits are those that it has alone, whatever the blocks and schedules.
TEST_P(CudaMixtureTest, BitsAreTheRowsAlone) {
  Mixture m(50, 128, 64, 6, 3, /*seed=*/5);
  const std::vector<float> all = RunLayer(Device(), m, 16).sums;
  EXPECT_TRUE(SameBits(RunLayer(Device(), m, 64).sums, all));
  for (uint64_t seed = 2; seed < 6; ++seed) {
    EXPECT_TRUE(SameBits(RunLayer(Device(seed), m, 16).sums, all)) << seed;
  }
  for (int row : {0, 17, 49}) {
    const auto begin = all.begin() + row * m.hidden;
    EXPECT_TRUE(SameBits(RunLayer(Device(), m.Row(row)).sums,
                         {begin, begin + m.hidden}))
        << row;
  }
}

// The outputs are added in the order of the choices, which is not that of the
// experts.
TEST_P(CudaMixtureTest, OutputsAreAddedInTheOrderOfTheChoices) {
  constexpr int kColumns = 64;
  ComputeDevice& device = Device();
  std::vector<float> values(3 * kColumns);
  std::fill_n(values.begin(), kColumns, 1.0f);                // place 0
  std::fill_n(values.begin() + kColumns, kColumns, 0x1p24f);  // place 1
  std::fill_n(values.begin() + 2 * kColumns, kColumns, -0x1p24f);
  const auto outputs = ArrayOf(device, values);
  const auto choices = ArrayOf(
      device,
      std::vector<ExpertChoice>{
          {9, 1, 1}, {3, 1, 0}, {5, 1, 2}, {9, 1, 1}, {5, 1, 2}, {3, 1, 0}});
  const auto sums = NanArray<float>(device, 2 * kColumns);
  device.Launch(TakeRowsArgs{.parts = {.values = outputs.data(),
                                       .splits = 1,
                                       .padded_rows = 3,
                                       .outputs = kColumns,
                                       .choices = choices.data(),
                                       .per_row = 3},
                             .rows = 2,
                             .columns = kColumns,
                             .sums = sums.data()});
  const std::vector<float> got = ValuesOf(device, sums);
  EXPECT_EQ(got[0], 0);  // 2^24 + 1 is rounded to 2^24
  EXPECT_EQ(got[kColumns], 1);
}

}  // namespace
}  // namespace espalier::cuda
