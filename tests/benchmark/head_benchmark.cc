// What the end of a pass costs, with the shape of the default model: the
// product with the vocabulary and what is made of its rows. "written": all
// logits go to memory and are read again, for every row. "fused": each chunk of
// logits is reduced where it was computed. With few hidden units the product is
// nearly free, and what is left is the difference. "bytes": of the logits, or
// of what a rule that reads distributions is given instead.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/model/logits/dense_rows.h"
#include "common/model/logits/gathered_rows.h"
#include "common/model/logits/ranked_rows.h"
#include "common/model/logits/sampled_rows.h"
#include "common/nn/cpu_backend.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/packed_matrix.h"
#include "common/nn/product_chunks.h"
#include "common/nn/thread_pool.h"
#include "tests/common/nn/operand_rows.h"

namespace espalier {
namespace {

constexpr int64_t kVocab = 49152;
constexpr int64_t kRowsPerPosition = 3;  // of a tree
constexpr float kDeviation = 3;          // of the logits

std::vector<float> Normal(int64_t size, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

class Head {
 public:
  struct Shape {
    int64_t threads = 1;
    int64_t rows = 1;
    int64_t hidden = 576;
  };
  Head(const nn::Kernels& kernels, const Shape& shape)
      : kernels_(kernels),
        pool_({.threads = shape.threads}),
        chunks_(kernels, pool_),
        rows_(shape.rows),
        hidden_(shape.hidden),
        x_(kernels, kernels.fast_operand, Normal(rows_ * hidden_, 1), hidden_) {
    const std::vector<float> weights = Normal(
        kVocab * hidden_, kDeviation / std::sqrt(static_cast<float>(hidden_)));
    matrix_ = nn::PackedMatrix::Pack(
        {{.format = nn::WeightSource::Format::kFloat32,
          .data = reinterpret_cast<const std::byte*>(weights.data()),
          .outputs = kVocab}},
        {.inputs = hidden_}, arena_, pool_);
    for (int64_t row = 0; row < rows_; ++row) {
      positions_.push_back(100 + row / kRowsPerPosition);
    }
  }

  void Run(RowReduction& reduction) {
    chunks_.Run(
        x_.In({.weights = matrix_.view(), .out_columns = kVocab}),
        [&reduction](const nn::ProductChunk& chunk) { reduction.Take(chunk); });
  }

  DenseRows Written() {
    DenseRows logits(rows_, kVocab);
    Run(logits);
    return logits;
  }

  const nn::Kernels& kernels() const { return kernels_; }
  int64_t threads() const { return pool_.threads(); }
  const std::vector<int64_t>& positions() const { return positions_; }

 private:
  const nn::Kernels& kernels_;
  nn::HugePageArena arena_;
  nn::ThreadPool pool_;
  nn::ProductChunks chunks_;
  nn::PackedMatrix matrix_;
  const int64_t rows_;
  const int64_t hidden_;
  const nn::OperandRows x_;
  std::vector<int64_t> positions_;
};

class Nothing final : public RowReduction {
  void Take(const nn::ProductChunk&) override {}
};

void Product(benchmark::State& state, Head& head) {
  Nothing nothing;
  for (auto _ : state) head.Run(nothing);
}

void Write(benchmark::State& state, Head& head) {
  for (auto _ : state) {
    const DenseRows logits = head.Written();
    benchmark::DoNotOptimize(logits.Row(0).data());
  }
}

void WrittenDraw(benchmark::State& state, Head& head,
                 const DrawRequest& request, int64_t visited) {
  for (auto _ : state) {
    const DenseRows logits = head.Written();
    for (int64_t row = 0; row < visited; ++row) {
      benchmark::DoNotOptimize(
          DrawFrom(logits.Row(row), request, head.positions()[row]));
    }
  }
}

void FusedDraw(benchmark::State& state, Head& head, const DrawRequest& request,
               int64_t visited) {
  for (auto _ : state) {
    SampledRows sampled(request, head.positions(), head.kernels(),
                        head.threads());
    head.Run(sampled);
    for (int64_t row = 0; row < visited; ++row) {
      benchmark::DoNotOptimize(sampled.Draw(row));
    }
  }
}

void WrittenRank(benchmark::State& state, Head& head,
                 const RankRequest& request, int64_t rows) {
  for (auto _ : state) {
    const DenseRows logits = head.Written();
    for (int64_t row = 0; row < rows; ++row) {
      benchmark::DoNotOptimize(RankFrom(logits.Row(row), request));
    }
  }
}

void FusedRank(benchmark::State& state, Head& head, const RankRequest& request,
               int64_t rows) {
  for (auto _ : state) {
    RankedRows ranked(request, rows, kVocab, head.kernels(), head.threads());
    head.Run(ranked);
    for (int64_t row = 0; row < rows; ++row) {
      benchmark::DoNotOptimize(ranked.Rank(row));
    }
  }
}

// Returns a request that gathers 20 tokens of every row and draws one outside.
GatherRequest Gathering(int64_t rows) {
  RowSupports supports;
  std::vector<TokenId> support;
  for (TokenId i = 0; i < 20; ++i) support.push_back(2000 * i);
  for (int64_t row = 0; row < rows; ++row) supports.Add(support);
  return {.temperature = 0.7f,
          .seed = 7,
          .round = 100,
          .supports = std::make_shared<RowSupports>(supports)};
}

void WrittenGather(benchmark::State& state, Head& head, int64_t rows) {
  const GatherRequest request = Gathering(rows);
  for (auto _ : state) {
    const DenseRows logits = head.Written();
    for (int64_t row = 0; row < rows; ++row) {
      benchmark::DoNotOptimize(GatherFrom(logits.Row(row), request, row));
    }
    benchmark::DoNotOptimize(SampleOutsideFrom(logits.Row(0), request, 0));
  }
  state.counters["bytes"] = static_cast<double>(rows * kVocab * sizeof(float));
}

void FusedGather(benchmark::State& state, Head& head, int64_t rows) {
  const GatherRequest request = Gathering(rows);
  for (auto _ : state) {
    GatheredRows gathered(request, kVocab, head.kernels(), head.threads());
    head.Run(gathered);
    for (int64_t row = 0; row < rows; ++row) {
      benchmark::DoNotOptimize(gathered.Gather(row));
    }
    benchmark::DoNotOptimize(gathered.SampleOutside(0));
  }
  const auto support = static_cast<int64_t>(request.supports->tokens.size());
  state.counters["bytes"] = static_cast<double>(
      support * sizeof(float) + rows * sizeof(GatheredRow::outside) +
      sizeof(SampledToken));
}

void RegisterFor(const nn::Kernels& kernels, const Head::Shape& shape) {
  const std::string place = std::string("/") + kernels.name +
                            "/threads:" + std::to_string(shape.threads) +
                            "/rows:" + std::to_string(shape.rows) +
                            "/hidden:" + std::to_string(shape.hidden);
  auto add = [&](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(
        (name + place).c_str(),
        [&kernels, shape, body](benchmark::State& state) {
          Head head(kernels, shape);
          body(state, head);
        })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  };
  add("Product", Product);
  add("Write", Write);
  // A walk visits few nodes of a tree, and samples only at these.
  const int64_t visited = std::min<int64_t>(shape.rows, 4);
  for (const auto& [name, temperature] :
       {std::pair("Greedy", 0.0f), std::pair("Draw", 1.0f)}) {
    const DrawRequest draw = {.temperature = temperature, .seed = 7};
    add(std::string(name) + "/written",
        [draw, visited](benchmark::State& state, Head& head) {
          WrittenDraw(state, head, draw, visited);
        });
    add(std::string(name) + "/fused",
        [draw, visited](benchmark::State& state, Head& head) {
          FusedDraw(state, head, draw, visited);
        });
  }
  const RankRequest rank = {.top_k = 32};
  const int64_t rows = shape.rows;
  add("Rank/written", [rank, rows](benchmark::State& state, Head& head) {
    WrittenRank(state, head, rank, rows);
  });
  add("Rank/fused", [rank, rows](benchmark::State& state, Head& head) {
    FusedRank(state, head, rank, rows);
  });
  add("Gather/written", [rows](benchmark::State& state, Head& head) {
    WrittenGather(state, head, rows);
  });
  add("Gather/fused", [rows](benchmark::State& state, Head& head) {
    FusedGather(state, head, rows);
  });
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  for (const espalier::nn::Kernels* kernels : espalier::nn::UsableBackends()) {
    for (int64_t threads : {1, 2}) {
      espalier::RegisterFor(*kernels, {.threads = threads, .rows = 1});
      espalier::RegisterFor(*kernels, {.threads = threads, .rows = 16});
      espalier::RegisterFor(*kernels,
                            {.threads = threads, .rows = 16, .hidden = 8});
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
