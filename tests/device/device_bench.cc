// Times what a pass is made of, on a GPU, at the shapes of an 8B model; on the
// emulated device at tiny shapes, where times mean nothing.
//
//   device_bench [--device cuda|emulated] [--json FILE] [SECTION...]
//
// Sections: copy read wait product fp8_product attention draws keep. A line of
// the table, and an object of the file, for each measurement.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/device_array.h"
#include "common/cuda/layout.h"
#include "common/cuda/open_emulated_device.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_pass.h"
#include "nlohmann/json.hpp"
#include "tests/device/bench_flags.h"

namespace espalier::cuda {
namespace {

template <typename T>
using Array = DeviceArray<T>;

struct Shape {
  const char* name;
  int outputs, inputs;
  bool gated = false;
};

struct Sizes {
  int64_t memory;  // bytes of a buffer that no cache holds
  std::vector<Shape> products;
  std::vector<int> rows;
  int layers, heads, kv_heads;
  std::vector<int> contexts;
  int vocab, draw_rows;
  int repeats;  // of a measurement
};
Sizes FullSizes() {
  return {.memory = int64_t{2} << 30,
          .products = {{"qkv", 6144, 4096},
                       {"o", 4096, 4096},
                       {"gate_up", 24576, 4096, true},
                       {"down", 4096, 12288},
                       {"head", 151936, 4096}},
          .rows = {1, 16, 64, 128, 256},
          .layers = 36,
          .heads = 32,
          .kv_heads = 8,
          .contexts = {1024, 8192, 32768},
          .vocab = 151936,
          .draw_rows = 64,
          .repeats = 7};
}
Sizes TinySizes() {
  return {.memory = 1 << 18,
          .products = {{"qkv", 192, 128}, {"gate_up", 256, 128, true}},
          .rows = {1, 64},
          .layers = 2,
          .heads = 2,
          .kv_heads = 1,
          .contexts = {128},
          .vocab = 512,
          .draw_rows = 4,
          .repeats = 1};
}

class Bench {
 public:
  using Open = std::function<std::unique_ptr<ComputeDevice>(bool dependent)>;
  Bench(Sizes sizes, Open open, const std::string& json)
      : sizes_(std::move(sizes)), open_(std::move(open)) {
    if (!json.empty()) file_.open(json);
    Use(open_(/*dependent=*/true));
  }

  void Run(const std::set<std::string>& sections) {
    const std::pair<const char*, void (Bench::*)()> all[] = {
        {"copy", &Bench::Copies},
        {"read", &Bench::Reads},
        {"wait", &Bench::Waits},
        {"product", &Bench::Products},
        {"fp8_product", &Bench::Fp8Products},
        {"attention", &Bench::Attends},
        {"draws", &Bench::Draws},
        {"keep", &Bench::Keeps}};
    std::cout << absl::StrFormat("%-34s %12s %10s %10s\n", "", "us", "GB/s",
                                 "of read");
    for (const auto& [name, section] : all) {
      if (sections.empty() || sections.contains(name)) (this->*section)();
    }
  }

 private:
  // The buffer that is read has random numbers; a device at a time.
  void Use(std::unique_ptr<ComputeDevice> device) {
    memory_ = Array<unsigned char>();
    device_ = std::move(device);
    memory_ = NewRandom(sizes_.memory);
  }

  template <typename T>
  Array<T> New(int64_t size) {
    auto array = Array<T>::Make(*device_, size);
    ESPALIER_CHECK(array.ok());
    return *std::move(array);
  }
  template <typename T>
  Array<T> NewOf(const std::vector<T>& values) {
    Array<T> array = New<T>(std::ssize(values));
    array.Write(0, values);
    Wait();
    return array;
  }
  // Small bf16 numbers.
  Array<unsigned char> NewRandom(int64_t bytes) {
    constexpr int kInputs = 4096, kRowBytes = 2 * kInputs;
    const int64_t rows = (bytes + kRowBytes - 1) / kRowBytes;
    const int64_t strips = (rows + kStripOutputs - 1) / kStripOutputs;
    auto array = New<unsigned char>(strips * kStripOutputs * kRowBytes);
    device_->Launch(
        RandomWeightsArgs{.seed = 1,
                          .scale = 0x1p-4f,
                          .rows = static_cast<int>(strips * kStripOutputs),
                          .outputs = static_cast<int>(strips * kStripOutputs),
                          .inputs = kInputs,
                          .out = array.data()});
    Wait();
    return array;
  }
  void Wait() {
    const absl::Status status = device_->Wait(device_->Record());
    if (status.ok()) return;
    std::cerr << status << std::endl;
    std::exit(1);
  }

  // Seconds of one of many that are queued, the median of several times.
  // `queue` is told how often it was called.
  double Time(const std::function<void(int)>& queue) {
    constexpr double kMin = 0.02;
    int calls = 0;
    const auto run = [&](int count) {
      const absl::Time start = absl::Now();
      for (int i = 0; i < count; ++i) queue(calls++);
      Wait();
      return absl::ToDoubleSeconds(absl::Now() - start) / count;
    };
    const double first = std::min(run(1), run(1));
    const int count = static_cast<int>(std::clamp(kMin / first, 1.0, 1000.0));
    std::vector<double> times;
    for (int i = 0; i < sizes_.repeats; ++i) times.push_back(run(count));
    std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2,
                     times.end());
    return times[times.size() / 2];
  }

  // bytes: that a run has to read, at least; 0: not worth a speed.
  void Report(nlohmann::ordered_json what, double seconds, double bytes) {
    std::string name;
    for (const auto& [key, value] : what.items()) {
      absl::StrAppend(&name, name.empty() ? "" : " ");
      if (value.is_string()) {
        absl::StrAppend(&name, value.get<std::string>());
      } else {
        absl::StrAppend(&name, key, "=", value.dump());
      }
    }
    const double speed = bytes / seconds / 1e9;
    if (what["what"] == "read") read_speed_ = speed;
    what["us"] = seconds * 1e6;
    std::string line = absl::StrFormat("%-34s %12.2f", name, seconds * 1e6);
    if (bytes > 0) {
      what["gb_per_s"] = speed;
      line += absl::StrFormat(" %10.1f", speed);
      if (read_speed_ > 0) {
        what["of_read"] = speed / read_speed_;
        line += absl::StrFormat(" %10.2f", speed / read_speed_);
      }
    }
    std::cout << line << std::endl;
    if (file_.is_open()) file_ << what.dump() << std::endl;
  }

  void Copies() {
    const int64_t half = memory_.size() / 2;
    const double seconds = Time([&](int) {
      device_->Copy(memory_.data() + half, memory_.data(), half);
    });
    Report({{"what", "copy"}}, seconds, 2.0 * static_cast<double>(half));
  }

  void Reads() {
    const auto sums = New<uint32_t>(kReadSums);
    const double seconds = Time([&](int) {
      device_->Launch(ReadArgs{.memory = memory_.data(),
                               .bytes = memory_.size(),
                               .sums = sums.data()});
    });
    Report({{"what", "read"}}, seconds, static_cast<double>(memory_.size()));
  }

  // Measures what the end of a pass costs: results of some KB, and the wait for
  // them.
  void Waits() {
    auto pinned = Array<unsigned char>::Make(*device_, 8192, Memory::kHost);
    ESPALIER_CHECK(pinned.ok());
    const double seconds = Time([&](int) {
      device_->Copy(pinned->data(), memory_.data(), pinned->size());
      Wait();
    });
    Report({{"what", "wait"}, {"bytes", pinned->size()}}, seconds, 0);
  }

  void Products() {
    for (const bool dependent : {true, false}) {
      Use(open_(dependent));
      for (const Shape& shape : sizes_.products) {
        for (int rows : sizes_.rows) {
          TimeProduct(shape, rows, {{"pdl", dependent}}, /*scales=*/nullptr);
        }
      }
    }
    Use(open_(/*dependent=*/true));
  }

  // Measures products with weights of e4m3, which the head of a model does not
  // have.
  void Fp8Products() {
    for (const Shape& shape : sizes_.products) {
      if (shape.name == std::string("head")) continue;
      const auto scales = NewOf(std::vector<float>(shape.outputs, 1.0f));
      for (int rows : sizes_.rows) {
        TimeProduct(shape, rows, {{"type", "fp8"}}, scales.data());
      }
    }
  }

  // Each run reads other weights, as those of a pass do. `scales`: of weights
  // of e4m3.
  void TimeProduct(const Shape& shape, int rows,
                   const nlohmann::ordered_json& how, const float* scales) {
    const int64_t bytes =
        int64_t{scales == nullptr ? 2 : 1} * shape.outputs * shape.inputs;
    const auto sets =
        static_cast<int>(std::max<int64_t>(1, memory_.size() / bytes));
    const auto activations =
        NewRandom(static_cast<int64_t>(ActivationBytes(rows, shape.inputs)));
    const auto parts =
        New<float>(int64_t{ProductSplits(shape.outputs, shape.inputs)} *
                   PaddedRows(rows) * shape.outputs);
    const auto gated = New<unsigned char>(
        static_cast<int64_t>(ActivationBytes(rows, shape.outputs / 2)));
    const double seconds = Time([&](int call) {
      ProductArgs args = {
          .weights = memory_.data() + call % sets * bytes,
          .scales = scales,
          .activations = activations.data(),
          .rows = rows,
          .inputs = shape.inputs,
          .outputs = shape.outputs,
      };
      if (shape.gated) {
        args.gated = gated.data();
      } else {
        args.parts = parts.data();
      }
      device_->Launch(args);
    });
    nlohmann::ordered_json what = {
        {"what", "product"}, {"shape", shape.name}, {"rows", rows}};
    what.update(how);
    Report(what, seconds, static_cast<double>(bytes));
  }

  ModelConfig Config() const {
    ModelConfig config;
    config.num_layers = sizes_.layers;
    config.num_heads = sizes_.heads;
    config.num_kv_heads = sizes_.kv_heads;
    config.head_dim = 128;
    return config;
  }

  // A tree of which every node but the root is a child of the root.
  void Attends() {
    for (int context : sizes_.contexts) {
      for (int rows : sizes_.rows) TimeAttention(context, rows);
    }
  }
  void TimeAttention(int context, int rows) {
    const ModelConfig config = Config();
    const int dim = static_cast<int>(config.head_dim);
    const int kv_heads = static_cast<int>(config.num_kv_heads);
    const int group = static_cast<int>(config.num_heads) / kv_heads;
    const int pages = (context + rows + kPagePositions - 1) / kPagePositions;
    const auto page_bytes =
        static_cast<int64_t>(PanelOffset(dim, kv_heads, 1, 0, 0));
    std::vector<int32_t> table(pages);
    for (int i = 0; i < pages; ++i) table[i] = i;
    std::vector<int32_t> parents(rows, 0);
    parents[0] = kPrefixParent;
    CudaPass pass(config);
    pass.Add(std::vector<TokenId>(rows, 1), BuildRowTree(parents, context),
             {{table}}, rows);
    const auto there = NewRandom(pages * page_bytes);
    const auto queries = NewRandom(int64_t{2} * rows * dim * kv_heads * group);
    const auto out = New<unsigned char>(
        static_cast<int64_t>(ActivationBytes(rows, dim * kv_heads * group)));
    const auto states =
        New<float>(std::max<int64_t>(1, pass.num_states * (dim + 2)));
    const auto pass_rows = NewOf(pass.rows);
    const auto sequences = NewOf(pass.sequences);
    const auto paths = NewOf(pass.paths);
    const auto prefix_items = NewOf(pass.prefix_items.at(0));
    const auto tree_items = NewOf(pass.tree_items);
    const auto chain_items = NewOf(pass.chain_items);
    const auto page_table = NewOf(pass.page_tables[0]);
    const double seconds = Time([&](int) {
      device_->Launch(AttendArgs{
          .queries = reinterpret_cast<const bf16_t*>(queries.data()),
          .kv = {there.data(), page_bytes, page_table.data()},
          .rows = pass_rows.data(),
          .sequences = sequences.data(),
          .paths = paths.data(),
          .prefix_items = prefix_items.data(),
          .tree_items = tree_items.data(),
          .chain_items = chain_items.data(),
          .num_prefix_items = static_cast<int>(prefix_items.size()),
          .num_tree_items = static_cast<int>(pass.tree_items.size()),
          .num_chain_items = static_cast<int>(pass.chain_items.size()),
          .tree_pages = pass.tree_pages,
          .kv_heads = kv_heads,
          .group = group,
          .head_dim = dim,
          .scale = AttendScale(dim),
          .states = states.data(),
          .out = out.data(),
          .out_block = RowBlock(rows)});
    });
    Report({{"what", "attention"}, {"context", context}, {"rows", rows}},
           seconds, 2.0 * 2 * context * kv_heads * dim);
  }

  void Draws() {
    const int rows = sizes_.draw_rows, vocab = sizes_.vocab;
    const int64_t stride =
        int64_t{(vocab + kStripOutputs - 1)} / kStripOutputs * kStripOutputs;
    std::vector<float> values(rows * stride);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i * 2654435761u % 4096) / 256;
    }
    auto filled = NewOf(values);
    const LogitBlock block = {filled.data(), rows, vocab, stride};
    const auto chunks = New<DrawChunk>(
        rows * ((vocab + kDrawChunkTokens - 1) / kDrawChunkTokens));
    const auto results = New<DrawResult>(rows);
    const double bytes = 4.0 * rows * vocab;
    for (const float temperature : {0.0f, 1.0f}) {
      const auto draws = NewOf(std::vector<DrawRow>(
          rows, {.temperature = temperature, .margin = 0.002f, .seed = 1}));
      const double seconds = Time([&](int) {
        device_->Launch(DrawArgs{.logits = block,
                                 .rows = draws.data(),
                                 .chunks = chunks.data(),
                                 .results = results.data()});
      });
      Report({{"what", "draws"}, {"rows", rows}, {"temperature", temperature}},
             seconds, bytes);
    }
    for (const int ranked : {1, 16, rows}) TimeRank(block, ranked);
  }

  void TimeRank(LogitBlock block, int rows) {
    const int top_k = std::min(64, block.vocab);
    block.rows = std::min(rows, block.rows);
    const auto parts = New<RankPart>(rows * kMaxRankParts);
    const auto results = New<RankResult>(rows);
    const auto top = New<LogitOfToken>(rows * top_k);
    const double seconds = Time([&](int) {
      device_->Launch(RankArgs{.logits = block,
                               .top_k = top_k,
                               .parts = parts.data(),
                               .results = results.data(),
                               .top = top.data()});
    });
    Report({{"what", "rank"}, {"rows", block.rows}, {"top_k", top_k}}, seconds,
           4.0 * block.rows * block.vocab);
  }

  // Eight nodes of a tree, in all layers.
  void Keeps() {
    constexpr int kPrefix = 100, kPath = 8;
    const int panels = sizes_.layers * sizes_.kv_heads * 2, dim = 128;
    const int64_t page_bytes = int64_t{panels} * PanelBytes(dim);
    const auto pages = NewRandom(4 * page_bytes);
    const auto table = NewOf(std::vector<int32_t>{0, 1, 2, 3});
    const auto sequences = NewOf(
        std::vector<KeepSequence>{{.prefix = kPrefix, .path_size = kPath}});
    std::vector<uint16_t> path;
    for (int i = 0; i < kPath; ++i)
      path.push_back(static_cast<uint16_t>(7 * i));
    const auto paths = NewOf(path);
    const double seconds = Time([&](int) {
      device_->Launch(KeepArgs{.kv = {pages.data(), page_bytes, table.data()},
                               .sequences = sequences.data(),
                               .paths = paths.data(),
                               .num_sequences = 1,
                               .panels = panels,
                               .head_dim = dim});
    });
    Report({{"what", "keep"}, {"nodes", kPath}}, seconds, 0);
  }

  const Sizes sizes_;
  const Open open_;
  std::ofstream file_;
  std::unique_ptr<ComputeDevice> device_;
  Array<unsigned char> memory_;
  double read_speed_ = 0;  // GB/s
};

int Main(int argc, char** argv) {
  const BenchFlags flags(argc, argv);
  const bool emulated = flags.emulated;
  const auto open = [emulated](bool dependent) {
    auto opened = emulated
                      ? OpenEmulatedDevice()
                      : OpenCudaDevice(0, {.dependent_launches = dependent});
    if (opened.ok()) return *std::move(opened);
    std::cerr << opened.status().message() << std::endl;
    std::exit(1);
  };
  Bench(emulated ? TinySizes() : FullSizes(), open, flags.json)
      .Run(flags.names);
  return 0;
}

}  // namespace
}  // namespace espalier::cuda

int main(int argc, char** argv) { return espalier::cuda::Main(argc, argv); }
