// Times of the operators of common/nn, one thread, on every backend that the
// CPU can run, beside what the machine can do at most: reading memory, and
// multiply-adds on weights that stay in the cache.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/cpu_backend.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/kernels.h"
#include "common/nn/packed_matrix.h"
#include "common/nn/thread_pool.h"
#include "tests/common/nn/operand_rows.h"

namespace espalier::nn {
namespace {

using benchmark::Counter;

// More than any last-level cache holds for one core.
constexpr int64_t kStreamBytes = int64_t{256} << 20;

std::vector<float> Random(int64_t size) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(size);
  for (float& value : values) value = uniform(random);
  return values;
}

void SetRates(benchmark::State& state, double bytes, double flops) {
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = Counter(bytes * runs / 1e9, Counter::kIsRate);
  if (flops > 0) {
    state.counters["GFLOP/s"] = Counter(flops * runs / 1e9, Counter::kIsRate);
  }
}

void ReadMemory(benchmark::State& state) {
  const HugePageBlock block = AllocateHugePages(kStreamBytes);
  auto* words = reinterpret_cast<uint64_t*>(block.get());
  const int64_t size = kStreamBytes / 8;
  for (int64_t i = 0; i < size; ++i) words[i] = i;
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (int64_t i = 0; i < size; i += 8) {
      for (int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  SetRates(state, kStreamBytes, 0);
}
BENCHMARK(ReadMemory)->Unit(benchmark::kMillisecond);

struct Shape {
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t copies = 1;  // distinct weights, used in turn
  BlockFormat format;  // of kBlocks
};

void RunLinear(benchmark::State& state, const Kernels& kernels,
               const Shape& shape, WeightType type, OperandType operand) {
  const int64_t rows = state.range(0);
  HugePageArena arena;
  ThreadPool pool({.threads = 1});
  const std::vector<float> weights = Random(shape.inputs * shape.outputs);
  std::vector<PackedMatrix> copies;
  for (int64_t i = 0; i < shape.copies; ++i) {
    copies.push_back(PackedMatrix::Pack(
        {{.format = WeightSource::Format::kFloat32,
          .data = reinterpret_cast<const std::byte*>(weights.data()),
          .outputs = shape.outputs}},
        {.inputs = shape.inputs, .type = type, .format = shape.format}, arena,
        pool));
  }
  const std::vector<float> x = Random(rows * shape.inputs);
  const OperandRows operands(kernels, operand, x, shape.inputs);
  std::vector<float> out(rows * shape.outputs);
  int64_t next = 0;
  for (auto _ : state) {
    const PackedMatrix& matrix = copies[next++ % shape.copies];
    kernels.linear(operands.In({.weights = matrix.view(),
                                .panel_end = matrix.panels(),
                                .out = out.data(),
                                .out_stride = shape.outputs,
                                .out_columns = shape.outputs}));
    benchmark::ClobberMemory();
  }
  SetRates(state, static_cast<double>(copies[0].bytes()),
           2.0 * static_cast<double>(rows * shape.inputs * shape.outputs));
}

// One layer's K/V head: `rows` leaves after a prefix, 3 queries a row.
void RunAttend(benchmark::State& state, const Kernels& kernels, KvType type) {
  constexpr int64_t kHeadDim = 64, kPrefix = 512, kGroup = 3;
  const int64_t rows = state.range(0), queries = rows * kGroup;
  const int64_t pages = (kPrefix + rows + kPageTokens - 1) / kPageTokens;
  const int64_t panel_floats = KvPanelFloats(type, kHeadDim);
  const int64_t page_floats = 2 * panel_floats;
  std::vector<float> cache(pages * page_floats);
  std::vector<const float*> page_list;
  const std::vector<float> entry = Random(kHeadDim);
  for (int64_t i = 0; i < pages; ++i) {
    float* const page = &cache[i * page_floats];
    page_list.push_back(page);
    for (int64_t slot = 0; slot < kPageTokens; ++slot) {
      kernels.write_kv({.type = type,
                        .keys = page,
                        .values = page + panel_floats,
                        .head_dim = kHeadDim},
                       slot, entry.data(), entry.data());
    }
  }
  const std::vector<float> q = Random(queries * kHeadDim);
  std::vector<float> out(queries * kHeadDim);
  std::vector<int32_t> self(rows);
  std::vector<AttendQuery> list;
  for (int64_t i = 0; i < queries; ++i) {
    self[i / kGroup] = static_cast<int32_t>(i / kGroup);
    list.push_back({.ancestors = &self[i / kGroup],
                    .num_ancestors = 1,
                    .out = &out[i * kHeadDim]});
  }
  AttendArgs args = {.type = type,
                     .queries = q.data(),
                     .query = list.data(),
                     .num_queries = queries,
                     .head_dim = kHeadDim,
                     .prefix = kPrefix,
                     .rows = rows,
                     .pages = page_list.data(),
                     .value_offset = panel_floats};
  std::vector<float> scratch(AttendScratch(args));
  args.scratch = scratch.data();
  for (auto _ : state) {
    kernels.attend(args);
    benchmark::ClobberMemory();
  }
  SetRates(state, static_cast<double>(cache.size() * sizeof(float)),
           4.0 * static_cast<double>(queries * kPrefix * kHeadDim));
}

void RunNormalize(benchmark::State& state, const Kernels& kernels) {
  const int64_t size = state.range(0);
  const std::vector<float> x = Random(size), weight = Random(size);
  std::vector<float> out(size);
  for (auto _ : state) {
    kernels.normalize({.x = x.data(),
                       .size = size,
                       .weight = weight.data(),
                       .epsilon = 1e-5f,
                       .out = out.data()});
    benchmark::ClobberMemory();
  }
  SetRates(state, static_cast<double>(2 * size * sizeof(float)), 0);
}

// Measures what the reductions of a row of logits add to its product.
// A row to an operand of a product of integers.
void RunPrepare(benchmark::State& state, const Kernels& kernels,
                OperandType type) {
  const int64_t inputs = state.range(0);
  const std::vector<float> x = Random(inputs);
  std::vector<std::byte> out(OperandBytes(type, inputs));
  for (auto _ : state) {
    kernels.prepare(
        {.type = type, .x = x.data(), .inputs = inputs, .out = out.data()});
    benchmark::ClobberMemory();
  }
}

// A key and a value of a head, by turns into the slots of a page.
void RunWriteKv(benchmark::State& state, const Kernels& kernels, KvType type) {
  const int64_t head_dim = state.range(0);
  const int64_t panel_floats = KvPanelFloats(type, head_dim);
  std::vector<float> page(2 * panel_floats);
  const std::vector<float> entry = Random(head_dim);
  int64_t slot = 0;
  for (auto _ : state) {
    kernels.write_kv({.type = type,
                      .keys = page.data(),
                      .values = page.data() + panel_floats,
                      .head_dim = head_dim},
                     slot, entry.data(), entry.data());
    slot = (slot + 1) % kPageTokens;
    benchmark::ClobberMemory();
  }
}

void RunPeaks(benchmark::State& state, const Kernels& kernels) {
  const int64_t size = state.range(0);
  const std::vector<float> x = Random(size), offsets = Random(size);
  std::vector<float> peaks(size / kPanelOutputs);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels.peaks({.x = x.data(),
                                            .size = size,
                                            .offsets = offsets.data(),
                                            .scale = 0.7f,
                                            .peaks = peaks.data()}));
    benchmark::ClobberMemory();
  }
  SetRates(state, static_cast<double>(2 * size * sizeof(float)), 0);
}

void RunSumExp(benchmark::State& state, const Kernels& kernels) {
  const std::vector<float> x = Random(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        kernels.sum_exp(x.data(), state.range(0), /*shift=*/1));
  }
  SetRates(state, static_cast<double>(x.size() * sizeof(float)), 0);
}

void RunNoiseCeilings(benchmark::State& state, const Kernels& kernels) {
  std::vector<float> ceilings(state.range(0));
  NoiseArgs args = {.key = 1,
                    .panels = state.range(0) / kPanelOutputs,
                    .ceilings = ceilings.data()};
  for (auto _ : state) {
    ++args.counter[0];
    kernels.noise_ceilings(args);
    benchmark::ClobberMemory();
  }
  SetRates(state, static_cast<double>(ceilings.size() * sizeof(float)), 0);
}

// Measures what a barrier costs: a loop with nothing in it.
void EmptyLoop(benchmark::State& state) {
  ThreadPool pool({.threads = state.range(0)});
  for (auto _ : state) {
    pool.ParallelFor(pool.threads(), 1, [](const ThreadPool::Chunk&) {});
  }
}
BENCHMARK(EmptyLoop)->Arg(1)->Arg(2)->UseRealTime();

void RegisterAll() {
  for (const Kernels* kernels : UsableBackends()) {
    const std::string name = kernels->name;
    auto linear = [&](const std::string& what, const Shape& shape,
                      WeightType type, OperandType operand) {
      return benchmark::RegisterBenchmark(
          ("Linear/" + what + "/" + name).c_str(),
          [=](benchmark::State& state) {
            RunLinear(state, *kernels, shape, type, operand);
          });
    };
    // Panels that stay in the cache, full register tiles: the most
    // multiply-adds.
    const Shape cached = {.inputs = 128, .outputs = 64};
    // The up product of the default model, and its copies in all layers.
    const Shape up = {.inputs = 576, .outputs = 3072, .copies = 40};
    const OperandType exact = kernels->exact_operand;
    const OperandType fast = kernels->fast_operand;
    linear("cached", cached, WeightType::kBf16, exact)->Arg(48);
    for (int64_t rows : {1, 4, 8, 16, 64, 256}) {
      linear("bf16", up, WeightType::kBf16, exact)->Arg(rows);
    }
    if (fast != exact) {
      linear("cached fast", cached, WeightType::kBf16, fast)->Arg(48);
      for (int64_t rows : {1, 16, 64, 256}) {
        linear("bf16 fast", up, WeightType::kBf16, fast)->Arg(rows);
      }
    }
    for (int64_t rows : {1, 8, 16, 64}) {
      linear("int8", up, WeightType::kBlocks, OperandType::kBlocks)->Arg(rows);
      linear("int8 fine", up, WeightType::kBlocks, OperandType::kFineBlocks)
          ->Arg(rows);
    }
    // 4 bits as in the default model, Q4_1, and more copies than caches hold.
    const BlockFormat q4_1 = {.bits = 4, .minimums = true};
    Shape streamed = up;
    streamed.copies = kStreamBytes / (up.inputs * up.outputs / 2);
    streamed.format = q4_1;
    for (int64_t rows : {1, 3, 5, 8}) {
      linear("streamed int4", streamed, WeightType::kBlocks,
             OperandType::kBlocks)
          ->Arg(rows);
    }
    // Four panels that stay in the cache.
    const Shape eight_bits = {.inputs = 576, .outputs = 128};
    Shape four_bits = eight_bits;
    four_bits.format = q4_1;
    for (int64_t rows : {1, 8, 16, 64}) {
      for (const auto& [what, shape] :
           {std::pair(std::string("cached int8"), eight_bits),
            std::pair(std::string("cached int4"), four_bits)}) {
        linear(what, shape, WeightType::kBlocks, OperandType::kBlocks)
            ->Arg(rows);
        linear(what + " fine", shape, WeightType::kBlocks,
               OperandType::kFineBlocks)
            ->Arg(rows);
      }
    }
    linear("float32", up, WeightType::kFloat32, OperandType::kFloat32)
        ->Arg(1)
        ->Arg(16);
    const std::pair<KvType, std::string> pages[] = {{KvType::kFloat32, "/"},
                                                    {KvType::kBf16, " bf16/"},
                                                    {KvType::kInt8, " int8/"}};
    for (const auto& [kv_type, what] : pages) {
      benchmark::RegisterBenchmark(
          ("Attend" + what + name).c_str(),
          [=, type = kv_type](benchmark::State& state) {
            RunAttend(state, *kernels, type);
          })
          ->Arg(1)
          ->Arg(5)
          ->Arg(16)
          ->Arg(64);
      benchmark::RegisterBenchmark(
          ("WriteKv" + what + name).c_str(),
          [=, type = kv_type](benchmark::State& state) {
            RunWriteKv(state, *kernels, type);
          })
          ->Arg(64);
    }
    const std::pair<OperandType, std::string> operands[] = {
        {OperandType::kBlocks, "Prepare/"},
        {OperandType::kFineBlocks, "Prepare fine/"}};
    for (const auto& [operand, what] : operands) {
      benchmark::RegisterBenchmark(
          (what + name).c_str(),
          [=, type = operand](benchmark::State& state) {
            RunPrepare(state, *kernels, type);
          })
          ->Arg(576);
    }
    benchmark::RegisterBenchmark(
        ("Normalize/" + name).c_str(),
        [kernels](benchmark::State& state) { RunNormalize(state, *kernels); })
        ->Arg(576);
    auto reduce = [&](const std::string& what, auto run) {
      benchmark::RegisterBenchmark(
          (what + "/" + name).c_str(),
          [kernels, run](benchmark::State& state) { run(state, *kernels); })
          ->Arg(256);
    };
    reduce("Peaks", RunPeaks);
    reduce("SumExp", RunSumExp);
    reduce("NoiseCeilings", RunNoiseCeilings);
  }
}

}  // namespace
}  // namespace espalier::nn

int main(int argc, char** argv) {
  espalier::nn::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
