#include "common/model/load_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/model/aten_model.h"
#include "common/model/catch_torch.h"
#include "common/model/weight_loader.h"

namespace espalier {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxRows = 4096;

absl::Status CheckOptions(const ModelOptions& options) {
  auto check = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (low <= value && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " ", value, " is not in ", low, " .. ", high));
  };
  RETURN_IF_ERROR(check("threads", options.threads, 0, kMaxThreads));
  RETURN_IF_ERROR(check("max_rows", options.max_rows, 1, kMaxRows));
  RETURN_IF_ERROR(check("kv_pool_bytes", options.kv_pool_bytes, 1, INT64_MAX));
  return check("max_context", options.max_context, 0, INT64_MAX);
}

absl::StatusOr<at::Device> FindDevice(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  absl::string_view rest = name;
  int index = 0;
  if (!absl::ConsumePrefix(&rest, "cuda") ||
      (!rest.empty() &&
       (!absl::ConsumePrefix(&rest, ":") || !absl::SimpleAtoi(rest, &index)))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown device \"", name, "\"; known: cpu, cuda, cuda:<number>"));
  }
  if (!at::globalContext().hasCUDA()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device \"", name,
                     "\": this build has no CUDA (ESPALIER_CUDA), or no "
                     "driver and GPU were found"));
  }
  const int64_t count = static_cast<int64_t>(at::getNumGPUs());
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device \"", name, "\": this machine has ", count, " GPUs"));
  }
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

// Cores that this process may use: a container's share, not the machine's.
int64_t UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(/*pid=*/0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

void SetThreads(int64_t threads) {
  at::set_num_threads(static_cast<int>(threads > 0 ? threads : UsableCores()));
  // May be set once per process, before the first use.
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
}

absl::StatusOr<std::unique_ptr<Decoder>> LoadDecoder(const ModelConfig& config,
                                                     WeightLoader& weights) {
  switch (config.architecture) {
    case Architecture::kLlama:
      return LoadLlama(config, weights);
    case Architecture::kGpt2:
      return LoadGpt2(config, weights);
  }
  return absl::InternalError("architecture without a decoder");
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const ModelOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(options.folder));
  ASSIGN_OR_RETURN(const at::Device device, FindDevice(options.device));
  ASSIGN_OR_RETURN(const WeightFiles files, WeightFiles::Open(options.folder));
  SetThreads(options.threads);

  const bool widen = options.compute_dtype == ComputeDType::kFloat32;
  const at::ScalarType dtype = widen ? at::kFloat : at::kBFloat16;
  const c10::InferenceMode no_autograd;
  WeightLoader weights(files, {.device = device, .compute_dtype = dtype});
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                   LoadDecoder(config, weights));

  const int64_t kv_bytes_per_token = 2 * config.num_layers *
                                     config.num_kv_heads * config.head_dim *
                                     static_cast<int64_t>(elementSize(dtype));
  const int64_t pool_tokens = options.kv_pool_bytes / kv_bytes_per_token;
  if (pool_tokens < KvCache::kBlockTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_pool_bytes ", options.kv_pool_bytes, " hold ",
                     pool_tokens, " tokens; at least ", KvCache::kBlockTokens,
                     " are needed, of ", kv_bytes_per_token, " bytes each"));
  }
  const int64_t max_context =
      options.max_context > 0
          ? std::min(options.max_context, config.max_positions)
          : config.max_positions;
  AtenModel::Parts parts = {
      .info = {.config = config,
               .device = device.str(),
               .compute_dtype = widen ? "float32" : "bfloat16",
               .threads = at::get_num_threads(),
               .weight_bytes = weights.weight_bytes(),
               .kv_bytes_per_token = kv_bytes_per_token,
               .max_context = max_context,
               .max_rows = std::min(options.max_rows, max_context)},
      .decoder = std::move(decoder),
      .kv_shape = {.num_layers = config.num_layers,
                   .num_kv_heads = config.num_kv_heads,
                   .head_dim = config.head_dim,
                   .tensor = at::dtype(dtype).device(device)},
      .kv_pool_tokens = pool_tokens};
  return std::make_unique<AtenModel>(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(
    const ModelOptions& options) {
  return CatchTorch([&] { return Load(options); });
}

}  // namespace espalier
