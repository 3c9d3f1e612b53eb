// Times passes whose kernels are launched one by one beside the same passes as
// graphs, with random weights in the shape of a model. Logits of both have to
// be the same bits.
//
//   graph_bench --shape FOLDER [--device cuda|emulated] [--context N]
//               [--json FILE] ROWS...
//
// A line of the table, and an object of the file, for each number of rows. Exit
// status 1: bits differ, or something failed.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_decoder.h"
#include "common/model/cuda/cuda_kv_cache.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/cuda/launch_graphs.h"
#include "common/model/cuda/open_device.h"
#include "common/model/files/weight_files.h"
#include "nlohmann/json.hpp"

namespace espalier {
namespace {

using cuda::DeviceArray;

constexpr int kMaxRows = cuda::MostTreeRows(/*head_dim=*/128);

struct Flags {
  std::string shape, device = "cuda", json;
  int64_t context = 1024;
  std::vector<int> rows;
};

// What both ways share. A prefix of any keys and values is cached.
struct Network {
  std::shared_ptr<cuda::ComputeDevice> device;
  ModelConfig config;
  CudaWeights weights;
  std::unique_ptr<CudaKvStore> store;
  std::vector<int32_t> pages;
  int64_t context = 0;
};

absl::StatusOr<Network> Load(const Flags& flags) {
  Network network;
  network.context = flags.context;
  ASSIGN_OR_RETURN(network.device, OpenComputeDevice(flags.device));
  ASSIGN_OR_RETURN(network.config, ReadModelConfig(flags.shape));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   WeightFiles::Open(flags.shape, /*random_seed=*/1));
  nn::ThreadPool pool({.threads = 1});
  ASSIGN_OR_RETURN(network.weights,
                   LoadCudaWeights(network.config, files, *network.device, pool,
                                   /*types=*/{}));
  const int64_t tokens = flags.context + kMaxRows;
  ASSIGN_OR_RETURN(
      network.store,
      CudaKvStore::Make(network.config,
                        {.total_tokens = tokens + cuda::kPagePositions},
                        network.device));
  for (int32_t page = 0; page * cuda::kPagePositions < tokens; ++page) {
    network.pages.push_back(page);
  }
  const auto rows =
      static_cast<int>(std::ssize(network.pages) * network.store->page_bytes() /
                       cuda::kTileRowBytes);
  network.device->Launch(
      cuda::RandomWeightsArgs{.seed = 1,
                              .scale = 0x1p-4f,
                              .rows = rows,
                              .outputs = rows,
                              .inputs = cuda::kTileColumns,
                              .out = network.store->memory()});
  RETURN_IF_ERROR(network.device->Wait(network.device->Record()));
  return network;
}

// Every row but the first is a child of the first.
CudaPass PassOf(const Network& network, int rows) {
  std::vector<int32_t> parents(rows, 0);
  parents[0] = kPrefixParent;
  CudaPass pass(network.config);
  pass.Add(std::vector<TokenId>(rows, 1),
           BuildRowTree(parents, network.context), {{network.pages}}, rows);
  return pass;
}

struct Times {
  double pass_ms = 0, queue_us = 0;
};

// A way to run passes: launches, or graphs.
class Way {
 public:
  static absl::StatusOr<std::unique_ptr<Way>> Make(const Network& network,
                                                   bool has_graphs) {
    ASSIGN_OR_RETURN(auto angles,
                     MakeCudaAngles(network.config, network.context + kMaxRows,
                                    *network.device));
    return std::make_unique<Way>(network, std::move(angles), has_graphs);
  }
  Way(const Network& network, CudaAngles angles, bool has_graphs)
      : network_(network),
        graphs_(has_graphs ? std::make_unique<LaunchGraphs>(*network.device)
                           : nullptr),
        decoder_(network.config, network.weights, std::move(angles),
                 *network.device, queue()),
        requests_(*network.device) {}

  absl::Status Prepare(int rows) {
    ASSIGN_OR_RETURN(logits_,
                     DeviceArray<float>::Make(*network_.device,
                                              int64_t{cuda::PaddedRows(rows)} *
                                                  decoder_.logit_stride()));
    return absl::OkStatus();
  }

  absl::StatusOr<Times> Run(const CudaPass& pass) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(requests_.Clear());
    RETURN_IF_ERROR(decoder_.Describe(pass, requests_));
    requests_.Send();
    const absl::Time queueing = absl::Now();
    decoder_.Launch(
        pass, {.pages = network_.store->memory(), .logits = logits_.data()});
    if (graphs_ != nullptr) graphs_->Flush();
    const absl::Time queued = absl::Now();
    RETURN_IF_ERROR(network_.device->Wait(network_.device->Record()));
    return Times{.pass_ms = absl::ToDoubleMilliseconds(absl::Now() - start),
                 .queue_us = absl::ToDoubleMicroseconds(queued - queueing)};
  }

  // Returns the logits of the last pass, without the rows and tokens that pad
  // it.
  absl::StatusOr<std::vector<float>> Logits(int rows) const {
    const int64_t stride = decoder_.logit_stride();
    std::vector<float> padded(rows * stride), logits;
    logits_.Read(0, absl::MakeSpan(padded));
    RETURN_IF_ERROR(network_.device->Wait(network_.device->Record()));
    for (int row = 0; row < rows; ++row) {
      const auto begin = padded.begin() + row * stride;
      logits.insert(logits.end(), begin, begin + network_.config.vocab_size);
    }
    return logits;
  }

 private:
  cuda::KernelQueue& queue() const {
    if (graphs_ == nullptr) return *network_.device;
    return *graphs_;
  }

  const Network& network_;
  const std::unique_ptr<LaunchGraphs> graphs_;
  CudaDecoder decoder_;
  Mailbox requests_;
  DeviceArray<float> logits_;
};

Times MedianOf(std::vector<Times> times) {
  const auto median = [&](double Times::*value) {
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(
        times.begin(), middle, times.end(),
        [&](const Times& a, const Times& b) { return a.*value < b.*value; });
    return (*middle).*value;
  };
  return {.pass_ms = median(&Times::pass_ms),
          .queue_us = median(&Times::queue_us)};
}

// The ways take turns.
absl::StatusOr<nlohmann::ordered_json> Measure(const Network& network,
                                               Way& launches, Way& graphs,
                                               int rows, int turns) {
  const CudaPass pass = PassOf(network, rows);
  RETURN_IF_ERROR(launches.Prepare(rows));
  RETURN_IF_ERROR(graphs.Prepare(rows));
  // The first of these launches, the second captures.
  RETURN_IF_ERROR(graphs.Run(pass).status());
  const int64_t free = network.device->info().free_bytes;
  ASSIGN_OR_RETURN(const Times capture, graphs.Run(pass));
  const int64_t taken = free - network.device->info().free_bytes;
  RETURN_IF_ERROR(graphs.Run(pass).status());
  RETURN_IF_ERROR(launches.Run(pass).status());
  std::vector<Times> of_launches, of_graphs;
  for (int turn = 0; turn < turns; ++turn) {
    ASSIGN_OR_RETURN(of_launches.emplace_back(), launches.Run(pass));
    ASSIGN_OR_RETURN(of_graphs.emplace_back(), graphs.Run(pass));
  }
  ASSIGN_OR_RETURN(const std::vector<float> a, launches.Logits(rows));
  ASSIGN_OR_RETURN(const std::vector<float> b, graphs.Logits(rows));
  const Times launched = MedianOf(of_launches), replayed = MedianOf(of_graphs);
  return nlohmann::ordered_json{
      {"what", absl::StrFormat("pass of %d rows", rows)},
      {"launches_ms", launched.pass_ms},
      {"graphs_ms", replayed.pass_ms},
      {"launches_queue_us", launched.queue_us},
      {"graphs_queue_us", replayed.queue_us},
      {"capture_us", capture.queue_us},
      {"graph_mib", static_cast<double>(taken) / (1 << 20)},
      {"ok", std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0}};
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const Network network, Load(flags));
  ASSIGN_OR_RETURN(const auto launches, Way::Make(network, false));
  ASSIGN_OR_RETURN(const auto graphs, Way::Make(network, true));
  std::ofstream file;
  if (!flags.json.empty()) file.open(flags.json);
  std::cout << absl::StrFormat("%5s %12s %12s %12s %12s %12s %10s\n", "rows",
                               "launches ms", "graphs ms", "queue us",
                               "graph us", "capture us", "graph MiB");
  bool same = true;
  for (const int rows : flags.rows) {
    ASSIGN_OR_RETURN(const nlohmann::ordered_json line,
                     Measure(network, *launches, *graphs, rows,
                             flags.device == "emulated" ? 1 : 51));
    std::cout << absl::StrFormat(
        "%5d %12.3f %12.3f %12.1f %12.1f %12.1f %10.2f%s\n", rows,
        line["launches_ms"].get<double>(), line["graphs_ms"].get<double>(),
        line["launches_queue_us"].get<double>(),
        line["graphs_queue_us"].get<double>(), line["capture_us"].get<double>(),
        line["graph_mib"].get<double>(), line["ok"] ? "" : "  BITS DIFFER");
    if (file.is_open()) file << line.dump() << std::endl;
    same = same && line["ok"];
  }
  return same ? absl::OkStatus() : absl::InternalError("bits differ");
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    int rows = 0;
    if (absl::SimpleAtoi(arg, &rows) && rows >= 1 && rows <= kMaxRows) {
      flags.rows.push_back(rows);
    } else if (arg == "--shape" && i + 1 < argc) {
      flags.shape = argv[++i];
    } else if (arg == "--device" && i + 1 < argc) {
      flags.device = argv[++i];
    } else if (arg == "--json" && i + 1 < argc) {
      flags.json = argv[++i];
    } else if (arg == "--context" && i + 1 < argc &&
               absl::SimpleAtoi(argv[i + 1], &flags.context)) {
      ++i;
    } else {
      std::cerr << "graph_bench: " << arg << "?" << std::endl;
      return 2;
    }
  }
  const absl::Status status = Run(flags);
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) { return espalier::Main(argc, argv); }
