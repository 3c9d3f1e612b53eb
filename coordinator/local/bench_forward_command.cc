#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/peak_memory.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/json/ordered_json.h"
#include "common/model/load/load_model.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/forward_cost.h"
#include "nlohmann/json.hpp"
#include "verifier/verifier_builder.h"

namespace espalier::local {
namespace {

constexpr char kBenchForwardUsage[] =
    R"(Usage: espalier bench forward [FLAGS]

Loads the target and times its forward pass by rows (tree nodes) and threads,
with the logits of all rows, then plain decoding and prefill. Peak memory is
that of the process, up to the end of loading. The floor is the time that the
machine, or the GPU, takes to read as much memory as the weights and the cached
keys and values take.
Passes and reads alternate. ms: the fastest pass. x floor, x first: median ratio
to the floor and to the first pass of the same turn.
With --as-served, passes alone follow each other as in a server, one number of
rows after another, with a round's gap between them. ms: median.)";

constexpr uint64_t kRandomWeightsSeed = 1;  // times depend on none

struct ForwardFlags {
  std::vector<uint32_t> rows = {1, 4, 8, 16, 32, 64};
  uint32_t context = 512;
  std::vector<uint32_t> threads = {0};
  std::optional<std::string> model;
  std::optional<std::string> random_weights;
  std::string device = "cpu";
  std::string backend = "auto";
  std::string cpu_kernels = "auto";
  std::string compute_type = "auto";
  std::string kv_cache_type = "auto";
  bool as_served = false;
  bool json = false;

  void AddTo(FlagSet& flags);
};

void ForwardFlags::AddTo(FlagSet& flags) {
  flags.Add({"--rows", "M,M", "default 1,4,8,16,32,64"}, &rows);
  flags.Add({"--context", "N", "cached tokens before the rows; default 512"},
            &context);
  flags.Add({"--threads", "T,T", "default 0: all cores of this process"},
            &threads);
  flags.Add({"--model", "PATH",
             "a folder or a .gguf file; default the default model"},
            &model);
  flags.Add({"--random-weights", "SHAPE_FOLDER",
             "random weights of the shape in the folder's config.json"},
            &random_weights);
  flags.Add({"--device", "NAME", "cpu (default), cuda, cuda:N or emulated"},
            &device);
  flags.Add({"--backend", "NAME", "native, cuda, aten or auto (default)"},
            &backend);
  flags.Add({"--cpu-kernels", "NAME",
             "of native: amx, avx512-bf16, avx-vnni, avx2, portable or auto"},
            &cpu_kernels);
  flags.Add({"--compute-type", "NAME",
             "float32, bfloat16, int8, int4, fp8 (GPU) or auto"},
            &compute_type);
  flags.Add({"--kv-cache-type", "NAME", "float32, bfloat16, int8 or auto"},
            &kv_cache_type);
  flags.AddSwitch({"--as-served", "", "time passes as a server runs them"},
                  &as_served);
  flags.AddSwitch({"--json", "", "one JSON object per line"}, &json);
}

// Time and memory of loading the weights.
struct LoadCost {
  double seconds = 0;
  int64_t weight_bytes = 0;
  // Resident memory of the process: before loading (most of it libtorch), and
  // the peak.
  int64_t base_bytes = 0;
  int64_t peak_bytes = 0;
};

absl::StatusOr<std::unique_ptr<LanguageModel>> TimedLoad(
    const ModelOptions& options, LoadCost& cost) {
  const int64_t base_bytes = PeakResidentBytes();
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(auto model, LoadModel(options));
  cost = {.seconds = absl::ToDoubleSeconds(absl::Now() - start),
          .weight_bytes = model->info().weight_bytes,
          .base_bytes = base_bytes,
          .peak_bytes = PeakResidentBytes()};
  return model;
}

void PrintHead(const ModelInfo& info, const LoadCost& load, uint32_t context,
               bool json, std::ostream& out) {
  if (json) {
    out << ToText(nlohmann::ordered_json{{"load_s", load.seconds},
                                         {"weight_bytes", load.weight_bytes},
                                         {"base_bytes", load.base_bytes},
                                         {"peak_bytes", load.peak_bytes}})
        << std::endl;
    return;
  }
  out << absl::StrFormat("%s, %s, %s, %d cached tokens in %s\n", info.device,
                         info.compute_dtype, info.backend, context,
                         info.kv_cache_type)
      << absl::StrFormat(
             "%.1f MB of weights, loaded in %.2f s; peak memory %.1f MB, of "
             "which %.1f MB before loading\n",
             static_cast<double>(load.weight_bytes) / 1e6, load.seconds,
             static_cast<double>(load.peak_bytes) / 1e6,
             static_cast<double>(load.base_bytes) / 1e6);
}

void PrintColumns(bool as_served, std::ostream& out) {
  out << absl::StrFormat("%6s %8s %10s", "rows", "threads", "ms");
  if (!as_served) {
    out << absl::StrFormat(" %10s %12s %10s %10s", "GB/s", "GFLOP/s", "x floor",
                           "x first");
  }
  out << std::endl;
}

void Print(const ForwardCost& cost, int64_t threads, bool json,
           std::ostream& out) {
  if (json) {
    out << ToText(nlohmann::ordered_json{{"rows", cost.rows},
                                         {"threads", threads},
                                         {"ms", cost.ms},
                                         {"gb_per_s", cost.gb_per_s},
                                         {"gflop_per_s", cost.gflop_per_s},
                                         {"times_floor", cost.times_floor},
                                         {"times_first", cost.times_first}})
        << std::endl;
  } else {
    out << absl::StrFormat("%6d %8d %10.2f %10.1f %12.1f %10.2f %10.2f",
                           cost.rows, threads, cost.ms, cost.gb_per_s,
                           cost.gflop_per_s, cost.times_floor, cost.times_first)
        << std::endl;
  }
}

void PrintFloor(const ForwardCosts& costs, int64_t threads, bool json,
                std::ostream& out) {
  if (json) {
    out << ToText(nlohmann::ordered_json{{"read_floor_ms", costs.floor_ms},
                                         {"threads", threads},
                                         {"gb_per_s", costs.floor_gb_per_s}})
        << std::endl;
  } else {
    out << absl::StrFormat("%6s %8d %10.2f %10.1f", "floor", threads,
                           costs.floor_ms, costs.floor_gb_per_s)
        << std::endl;
  }
}

void Print(const DecodingSpeed& speed, int64_t threads, bool json,
           std::ostream& out) {
  if (json) {
    out << ToText(nlohmann::ordered_json{
               {"threads", threads},
               {"plain_tokens_per_s", speed.plain_tokens_per_s},
               {"prefill_tokens_per_s", speed.prefill_tokens_per_s}})
        << std::endl;
  } else {
    out << absl::StrFormat(
               "plain %.1f tokens/s, prefill %.0f tokens/s with %d threads",
               speed.plain_tokens_per_s, speed.prefill_tokens_per_s, threads)
        << std::endl;
  }
}

void PrintServed(int64_t rows, double ms, int64_t threads, bool json,
                 std::ostream& out) {
  if (json) {
    out << ToText(nlohmann::ordered_json{
               {"rows", rows}, {"threads", threads}, {"served_ms", ms}})
        << std::endl;
  } else {
    out << absl::StrFormat("%6d %8d %10.2f", rows, threads, ms) << std::endl;
  }
}

absl::Status RunAsServed(const ForwardFlags& flags,
                         absl::Span<const int64_t> rows, LanguageModel& model,
                         std::ostream& out) {
  ASSIGN_OR_RETURN(const std::vector<double> medians,
                   MeasureAsServed(model, rows, flags.context));
  for (size_t i = 0; i < rows.size(); ++i) {
    PrintServed(rows[i], medians[i], model.info().threads, flags.json, out);
  }
  return absl::OkStatus();
}

// Runs all measurements with one number of threads.
absl::Status MeasureAll(const ForwardFlags& flags, uint32_t threads,
                        cli::Context& context) {
  v1::VerifierEngineConfig config;
  config.set_model(flags.model.value_or(context.places.model.string()));
  if (flags.random_weights.has_value()) {
    config.set_model(*flags.random_weights);
    config.set_random_weights(kRandomWeightsSeed);
  }
  config.set_device(flags.device);
  config.set_backend(flags.backend);
  config.set_cpu_kernels(flags.cpu_kernels);
  config.set_compute_type(flags.compute_type);
  config.set_kv_cache_type(flags.kv_cache_type);
  if (threads > 0) config.set_threads(threads);
  ASSIGN_OR_RETURN(const ModelOptions options,
                   verifier::ModelOptionsFrom(config));
  LoadCost load;
  ASSIGN_OR_RETURN(auto model, TimedLoad(options, load));
  const ModelInfo& info = model->info();
  for (uint32_t rows : flags.rows) {
    if (rows < 1 || rows > info.max_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rows: ", rows, " is not in 1 .. ", info.max_rows));
    }
  }
  PrintHead(info, load, flags.context, flags.json, context.out);
  if (!flags.json) PrintColumns(flags.as_served, context.out);
  const std::vector<int64_t> rows(flags.rows.begin(), flags.rows.end());
  if (flags.as_served) return RunAsServed(flags, rows, *model, context.out);
  ASSIGN_OR_RETURN(const ForwardCosts costs,
                   MeasureForward(*model, rows, flags.context));
  for (const ForwardCost& cost : costs.passes) {
    Print(cost, info.threads, flags.json, context.out);
  }
  PrintFloor(costs, info.threads, flags.json, context.out);
  ASSIGN_OR_RETURN(const DecodingSpeed speed,
                   MeasureDecoding(*model, flags.context));
  Print(speed, info.threads, flags.json, context.out);
  return absl::OkStatus();
}

absl::Status BenchForward(cli::Context& context, cli::Args args) {
  ForwardFlags flags;
  FlagSet flag_set(kBenchForwardUsage);
  flags.AddTo(flag_set);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  if (flags.context < 1) {
    return absl::InvalidArgumentError("--context: 0 is below 1");
  }
  if (flags.model.has_value() && flags.random_weights.has_value()) {
    return absl::InvalidArgumentError(
        "--random-weights: cannot be given with --model");
  }
  for (uint32_t threads : flags.threads) {
    RETURN_IF_ERROR(MeasureAll(flags, threads, context));
  }
  return absl::OkStatus();
}

}  // namespace

cli::Command BenchForwardCommand() {
  return {.name = "bench forward",
          .summary = "time the target's forward pass by rows",
          .run = BenchForward};
}

}  // namespace espalier::local
