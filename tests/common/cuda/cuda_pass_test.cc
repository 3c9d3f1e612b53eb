// A whole pass of a small decoder in one queue, as an engine runs it: kernels
// begin before those that they read from have ended, and rows of a tree get the
// bits of decoding their path token by token.
#include <algorithm>
#include <vector>

#include "common/cuda/product_shape.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

constexpr int kHidden = 128, kHeads = 4, kKvHeads = 2, kDim = 64;
constexpr int kQkv = (kHeads + 2 * kKvHeads) * kDim, kAttended = kHeads * kDim;
constexpr int kFfn = 192, kVocab = 320, kPages = 4, kPositions = 256;
constexpr float kEpsilon = 1e-5f;

// The weights of one layer. Their sizes keep its sums near 1.
struct Weights {
  std::vector<uint16_t> embedding, qkv, out, gate_up, down;
  std::vector<float> norm, angles;

  explicit Weights(uint64_t seed) {
    Random random(seed);
    const auto matrix = [&](int outputs, int inputs) {
      std::vector<uint16_t> w(int64_t{outputs} * inputs);
      for (uint16_t& x : w) {
        x = FloatToBf16(random.Normal() / std::sqrt(float(inputs)));
      }
      return w;
    };
    embedding = random.Bf16s(kVocab * kHidden);
    qkv = matrix(kQkv, kHidden);
    out = matrix(kHidden, kAttended);
    gate_up = matrix(2 * kFfn, kHidden);
    down = matrix(kHidden, kFfn);
    for (int i = 0; i < kHidden; ++i) {
      norm.push_back(1 + 0.1f * random.Normal());
    }
    for (int p = 0; p < kPositions; ++p) {
      for (int i = 0; i < kDim / 2; ++i) {
        const double angle = p * std::pow(1e4, -2.0 * i / kDim);
        angles.push_back(static_cast<float>(std::cos(angle)));
        angles.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
};

struct TreeRows {
  std::vector<int32_t> tokens;
  std::vector<int> parents;

  std::vector<int> PathTo(int row) const {
    std::vector<int> path;
    for (; row >= 0; row = parents[row]) path.insert(path.begin(), row);
    return path;
  }
  bool IsChain() const {
    const int last = static_cast<int>(parents.size()) - 1;
    return PathTo(last).size() == parents.size();
  }
};

// The decoder with K/V of one text.
class Decoder {
 public:
  Decoder(ComputeDevice& device, const Weights& w)
      : device_(device),
        embedding_(ArrayOf(device, PackWeights(w.embedding, kVocab, kHidden))),
        qkv_(ArrayOf(device, PackWeights(w.qkv, kQkv, kHidden))),
        out_(ArrayOf(device, PackWeights(w.out, kHidden, kAttended))),
        gate_up_(ArrayOf(device, PackWeights(w.gate_up, 2 * kFfn, kHidden))),
        down_(ArrayOf(device, PackWeights(w.down, kHidden, kFfn))),
        norm_(ArrayOf(device, w.norm)),
        angles_(ArrayOf(device, w.angles)),
        pages_(NanArray<unsigned char>(device, kPages * kPageBytes)),
        table_(ArrayOf<int32_t>(device, {2, 0, 3, 1})) {}

  // [rows, vocab] logits.
  std::vector<float> Forward(const TreeRows& tree) {
    const int rows = static_cast<int>(tree.tokens.size());
    Describe(tree);
    const auto x = NanArray<float>(device_, rows * kHidden);
    const auto normed = Activations(rows, kHidden);
    const auto attended = Activations(rows, kAttended);
    const auto gated = Activations(rows, kFfn);
    const auto queries = NanArray<uint16_t>(device_, rows * kAttended);
    const auto states =
        NanArray<float>(device_, 2 * kHeads * rows * (kDim + 2));
    const auto sums = Parts(kQkv, kHidden, rows);
    const auto out_sums = Parts(kHidden, kAttended, rows);
    const auto down_sums = Parts(kHidden, kFfn, rows);
    const auto logits = Parts(kVocab, kHidden, rows);
    // Nothing below waits until the end.
    device_.Launch(EmbedArgs{.table = embedding_.data(),
                             .tokens = tokens_.data(),
                             .rows = rows,
                             .hidden = kHidden,
                             .x = x.data()});
    ResidualNormArgs norm = {.x = x.data(),
                             .rows = rows,
                             .hidden = kHidden,
                             .weight = norm_.data(),
                             .epsilon = kEpsilon,
                             .out = normed.data(),
                             .out_block = RowBlock(rows)};
    device_.Launch(norm);
    device_.Launch(Product(qkv_, kQkv, normed, kHidden, rows, sums));
    device_.Launch(PrepareArgs{.parts = PartsOf(sums, kQkv, kHidden, rows),
                               .angles = angles_.data(),
                               .rows = rows_.data(),
                               .sequences = sequences_.data(),
                               .num_rows = rows,
                               .heads = kHeads,
                               .kv_heads = kKvHeads,
                               .head_dim = kDim,
                               .kv = Kv(),
                               .queries = queries.data()});
    device_.Launch(Attention(rows, queries, states, attended));
    device_.Launch(Product(out_, kHidden, attended, kAttended, rows, out_sums));
    norm.parts = PartsOf(out_sums, kHidden, kAttended, rows);
    device_.Launch(norm);
    ProductArgs gate = Product(gate_up_, 2 * kFfn, normed, kHidden, rows, sums);
    gate.parts = nullptr;
    gate.gated = gated.data();
    device_.Launch(gate);
    device_.Launch(Product(down_, kHidden, gated, kFfn, rows, down_sums));
    norm.parts = PartsOf(down_sums, kHidden, kFfn, rows);
    device_.Launch(norm);
    device_.Launch(Product(embedding_, kVocab, normed, kHidden, rows, logits));
    const std::vector<float> values = ValuesOf(device_, logits);
    std::vector<float> all(int64_t{rows} * kVocab);
    const int splits = ProductSplits(kVocab, kHidden);
    for (size_t i = 0; i < all.size(); ++i) {
      for (int s = 0; s < splits; ++s) {
        all[i] += values[int64_t{s} * PaddedRows(rows) * kVocab + i];
      }
    }
    return all;
  }

  void Keep(const std::vector<int>& path) {
    const int size = static_cast<int>(path.size());
    const auto sequence = ArrayOf<KeepSequence>(
        device_, {{.prefix = prefix_, .path_size = size}});
    const auto rows =
        ArrayOf(device_, std::vector<uint16_t>(path.begin(), path.end()));
    device_.Launch(KeepArgs{.kv = Kv(),
                            .sequences = sequence.data(),
                            .paths = rows.data(),
                            .num_sequences = 1,
                            .panels = 2 * kKvHeads,
                            .head_dim = kDim});
    Finish(device_);
    prefix_ += size;
  }

 private:
  static constexpr int64_t kPageBytes =
      static_cast<int64_t>(PanelOffset(kDim, kKvHeads, 1, 0, 0));

  DeviceArray<unsigned char> Activations(int rows, int columns) {
    return NanArray<unsigned char>(
        device_, static_cast<int64_t>(ActivationBytes(rows, columns)));
  }
  DeviceArray<float> Parts(int outputs, int inputs, int rows) {
    return NanArray<float>(device_, int64_t{ProductSplits(outputs, inputs)} *
                                        PaddedRows(rows) * outputs);
  }
  static cuda::Parts PartsOf(const DeviceArray<float>& parts, int outputs,
                             int inputs, int rows) {
    return {.values = parts.data(),
            .splits = ProductSplits(outputs, inputs),
            .padded_rows = PaddedRows(rows),
            .outputs = outputs};
  }
  static ProductArgs Product(const DeviceArray<unsigned char>& weights,
                             int outputs,
                             const DeviceArray<unsigned char>& rows_of,
                             int inputs, int rows,
                             const DeviceArray<float>& parts) {
    return {.weights = weights.data(),
            .activations = rows_of.data(),
            .rows = rows,
            .inputs = inputs,
            .outputs = outputs,
            .parts = parts.data()};
  }
  KvPages Kv() const { return {pages_.data(), kPageBytes, table_.data()}; }

  void Describe(const TreeRows& tree) {
    const int rows = static_cast<int>(tree.tokens.size());
    std::vector<PassRow> places;
    std::vector<uint16_t> paths;
    for (int row = 0; row < rows; ++row) {
      const std::vector<int> path = tree.PathTo(row);
      places.push_back({.sequence = 0,
                        .position = prefix_ + static_cast<int>(path.size()) - 1,
                        .slot = prefix_ + row,
                        .path_begin = static_cast<int>(paths.size())});
      paths.insert(paths.end(), path.begin(), path.end());
    }
    tokens_ = ArrayOf(device_, tree.tokens);
    rows_ = ArrayOf(device_, places);
    paths_ = ArrayOf(device_, paths);
    sequences_ =
        ArrayOf<PassSequence>(device_, {{.prefix = prefix_, .rows = rows}});
    std::vector<PrefixItem> prefix_items;
    for (int q = 0; prefix_ >= kPagePositions && q < rows * kHeads / kKvHeads;
         q += kPrefixItemQueries) {
      prefix_items.push_back({0, 0, q});
    }
    std::vector<TreeItem> tree_items;
    std::vector<ChainItem> chain_items;
    if (AttendsChain(kDim, rows) && tree.IsChain()) {
      for (int q = 0; q < rows * kHeads / kKvHeads; q += kChainItemQueries) {
        chain_items.push_back({0, q});
      }
    } else {
      for (int row = 0; row < rows; row += kTreeItemRows) {
        tree_items.push_back({0, row});
      }
    }
    prefix_items_ = ArrayOf(device_, prefix_items);
    tree_items_ = ArrayOf(device_, tree_items);
    chain_items_ = ArrayOf(device_, chain_items);
    num_prefix_items_ = static_cast<int>(prefix_items.size());
    num_tree_items_ = static_cast<int>(tree_items.size());
    num_chain_items_ = static_cast<int>(chain_items.size());
  }

  AttendArgs Attention(int rows, const DeviceArray<uint16_t>& queries,
                       const DeviceArray<float>& states,
                       const DeviceArray<unsigned char>& attended) const {
    return {.queries = queries.data(),
            .kv = Kv(),
            .rows = rows_.data(),
            .sequences = sequences_.data(),
            .paths = paths_.data(),
            .prefix_items = prefix_items_.data(),
            .tree_items = tree_items_.data(),
            .chain_items = chain_items_.data(),
            .num_prefix_items = num_prefix_items_,
            .num_tree_items = num_tree_items_,
            .num_chain_items = num_chain_items_,
            .tree_pages = (prefix_ + rows - 1) / kPagePositions -
                          prefix_ / kPagePositions + 1,
            .kv_heads = kKvHeads,
            .group = kHeads / kKvHeads,
            .head_dim = kDim,
            .scale = AttendScale(kDim),
            .states = states.data(),
            .out = attended.data(),
            .out_block = RowBlock(rows)};
  }

  ComputeDevice& device_;
  const DeviceArray<unsigned char> embedding_, qkv_, out_, gate_up_, down_;
  const DeviceArray<float> norm_, angles_;
  const DeviceArray<unsigned char> pages_;
  const DeviceArray<int32_t> table_;
  int prefix_ = 0;
  DeviceArray<int32_t> tokens_;
  DeviceArray<PassRow> rows_;
  DeviceArray<PassSequence> sequences_;
  DeviceArray<uint16_t> paths_;
  DeviceArray<PrefixItem> prefix_items_;
  DeviceArray<TreeItem> tree_items_;
  DeviceArray<ChainItem> chain_items_;
  int num_prefix_items_ = 0, num_tree_items_ = 0, num_chain_items_ = 0;
};

// Logits of the last token of a text, in float64.
std::vector<double> ExactLogits(const Weights& w,
                                const std::vector<int32_t>& text) {
  using Row = std::vector<double>;
  const auto times = [](const std::vector<uint16_t>& m, const Row& x) {
    Row y(m.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) {
        y[o] += x[i] * Bf16ToFloat(m[o * x.size() + i]);
      }
    }
    return y;
  };
  const auto normed = [&](Row x) {
    double squares = 0;
    for (double value : x) squares += value * value;
    for (int i = 0; i < kHidden; ++i) {
      x[i] *= w.norm[i] / std::sqrt(squares / kHidden + kEpsilon);
    }
    return x;
  };
  Row x;
  std::vector<Row> qkv;
  for (size_t p = 0; p < text.size(); ++p) {
    x.assign(kHidden, 0);
    for (int i = 0; i < kHidden; ++i) {
      x[i] = Bf16ToFloat(w.embedding[text[p] * kHidden + i]);
    }
    qkv.push_back(times(w.qkv, normed(x)));
    for (int head = 0; head < kHeads + kKvHeads; ++head) {
      for (int i = 0; i < kDim / 2; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(1e4, -2.0 * i / kDim);
        double& a = qkv[p][head * kDim + i];
        double& b = qkv[p][head * kDim + i + kDim / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }
  Row attended(kAttended, 0);
  for (int head = 0; head < kHeads; ++head) {
    const int key = kHeads + head / (kHeads / kKvHeads);
    Row weights;
    double sum = 0;
    for (const Row& seen : qkv) {
      double score = 0;
      for (int i = 0; i < kDim; ++i) {
        score += qkv.back()[head * kDim + i] * seen[key * kDim + i];
      }
      weights.push_back(std::exp(score / 8));
      sum += weights.back();
    }
    for (size_t p = 0; p < qkv.size(); ++p) {
      for (int i = 0; i < kDim; ++i) {
        attended[head * kDim + i] +=
            weights[p] / sum * qkv[p][(key + kKvHeads) * kDim + i];
      }
    }
  }
  const Row out = times(w.out, attended);
  for (int i = 0; i < kHidden; ++i) x[i] += out[i];
  const Row gate_up = times(w.gate_up, normed(x));
  Row gated(kFfn);
  for (int i = 0; i < kFfn; ++i) {
    const double gate = gate_up[GatePlace(i)];
    gated[i] = gate / (1 + std::exp(-gate)) * gate_up[GatedValuePlace(i)];
  }
  const Row down = times(w.down, gated);
  for (int i = 0; i < kHidden; ++i) x[i] += down[i];
  return times(w.embedding, normed(x));
}

class CudaPassTest : public DeviceTest {
 protected:
  static TreeRows Prompt(int size) {
    Random random(17);
    TreeRows prompt;
    for (int i = 0; i < size; ++i) {
      prompt.tokens.push_back(static_cast<int32_t>(random.Below(kVocab)));
      prompt.parents.push_back(i - 1);
    }
    return prompt;
  }
  static std::vector<int> All(const TreeRows& rows) {
    return rows.PathTo(static_cast<int>(rows.tokens.size()) - 1);
  }

  const Weights weights_{3};
  const TreeRows tree_ = {{5, 300, 17, 17, 2, 90, 41, 8, 8},
                          {-1, 0, 1, 1, 0, 4, 5, 2, 3}};
};
INSTANTIATE_FOR_DEVICES(CudaPassTest);

TEST_P(CudaPassTest, LogitsAreThoseOfFloat64) {
  const TreeRows prompt = Prompt(61);
  Decoder decoder(Device(), weights_);
  decoder.Forward(prompt);
  decoder.Keep(All(prompt));
  const std::vector<float> logits = decoder.Forward(tree_);
  RelativeError error;
  for (int row = 0; row < 9; ++row) {
    std::vector<int32_t> text = prompt.tokens;
    for (int node : tree_.PathTo(row)) text.push_back(tree_.tokens[node]);
    const std::vector<double> wanted = ExactLogits(weights_, text);
    for (int i = 0; i < kVocab; ++i) {
      error.Add(logits[row * kVocab + i], wanted[i]);
    }
  }
  EXPECT_LT(error.value(), 0.01);
}

TEST_P(CudaPassTest, ATreeHasTheBitsOfDecodingItsPaths) {
  for (int size : {61, 130}) {
    const TreeRows prompt = Prompt(size);
    Decoder decoder(Device(1), weights_);
    decoder.Forward(prompt);
    decoder.Keep(All(prompt));
    const std::vector<float> logits = decoder.Forward(tree_);
    for (int row : {6, 7, 8}) {
      Decoder plain(Device(row), weights_);
      plain.Forward(prompt);
      plain.Keep(All(prompt));
      for (int node : tree_.PathTo(row)) {
        const std::vector<float> one =
            plain.Forward({{tree_.tokens[node]}, {-1}});
        plain.Keep({0});
        const auto begin = logits.begin() + node * kVocab;
        EXPECT_TRUE(SameBits(one, {begin, begin + kVocab}))
            << "prompt of " << size << ", node " << node;
      }
    }
  }
}

TEST_P(CudaPassTest, GoesOnFromWhatWasKept) {
  const TreeRows prompt = Prompt(61);
  Decoder decoder(Device(), weights_), plain(Device(), weights_);
  for (Decoder* each : {&decoder, &plain}) {
    each->Forward(prompt);
    each->Keep(All(prompt));
  }
  decoder.Forward(tree_);
  decoder.Keep(tree_.PathTo(8));
  for (int node : tree_.PathTo(8)) {
    plain.Forward({{tree_.tokens[node]}, {-1}});
    plain.Keep({0});
  }
  EXPECT_TRUE(SameBits(decoder.Forward(tree_), plain.Forward(tree_)));
}

// In one pass, and one token after another.
TEST_P(CudaPassTest, APromptHasTheBitsOfDecodingIt) {
  TreeRows prompt = Prompt(90);
  Decoder decoder(Device(2), weights_), plain(Device(3), weights_);
  const std::vector<float> logits = decoder.Forward(prompt);
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    const std::vector<float> one = plain.Forward({{prompt.tokens[i]}, {-1}});
    plain.Keep({0});
    const auto begin = logits.begin() + static_cast<ptrdiff_t>(i * kVocab);
    EXPECT_TRUE(SameBits(one, {begin, begin + kVocab})) << i;
  }
}

TEST_P(CudaPassTest, BitsDoNotDependOnTheSchedule) {
  const TreeRows prompt = Prompt(70);
  std::vector<float> expected;
  for (uint64_t seed = 1; seed < 8; ++seed) {
    Decoder decoder(Device(seed), weights_);
    decoder.Forward(prompt);
    decoder.Keep(All(prompt));
    const std::vector<float> logits = decoder.Forward(tree_);
    if (expected.empty()) expected = logits;
    EXPECT_TRUE(SameBits(logits, expected)) << seed;
  }
}

}  // namespace
}  // namespace espalier::cuda
