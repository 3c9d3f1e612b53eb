#include "drafter/heads/head_runtime.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_prefix.h"
#include "common/model/cuda/open_device.h"
#include "common/model/native/model_limits.h"
#include "common/nn/cpu_backend.h"

namespace espalier::drafter {
namespace {

std::string ReadDevice(OptionReader& reader) {
  const std::string device = reader.Text("device", "cpu");
  const absl::Status known = ParseDevice(device).status();
  if (!known.ok()) reader.Fail("device", known.message());
  return device;
}

ComputeDType ReadComputeType(bool is_cpu, ComputeDType cpu_type,
                             OptionReader& reader) {
  const std::string type = reader.Text(
      "compute_type", is_cpu ? std::string(NameOf(cpu_type)) : "fp8");
  const absl::Span<const ComputeDType> known =
      is_cpu ? kNativeComputeDTypes : absl::MakeConstSpan(kGpuComputeDTypes);
  for (ComputeDType dtype : known) {
    if (type == NameOf(dtype)) return dtype;
  }
  reader.Fail("compute_type",
              absl::StrCat("\"", type, "\" is not one of ",
                           is_cpu ? "float32, bfloat16, int8, int4"
                                  : "bfloat16, fp8, which a GPU has"));
  return ComputeDType::kFloat32;
}

}  // namespace

NativeLayers::Runtime HeadRuntime::layers() const {
  return {.kernels = *kernels,
          .operand = dtype == ComputeDType::kFloat32 ? kernels->exact_operand
                                                     : kernels->fast_operand,
          .pool = *pool};
}

KvPageStore::Room HeadRuntime::Room(const KvPageShape& shape,
                                    int64_t total_tokens) const {
  return {.total_tokens = total_tokens * shape.layers.groups.count(),
          .max_cached_tokens =
              prefix_cache_bytes / shape.page_bytes() * nn::kPageTokens};
}

absl::StatusOr<std::shared_ptr<cuda::ComputeDevice>> HeadRuntime::OpenDevice(
    absl::string_view drafter) const {
  return WithPrefix(absl::StrCat("drafter ", drafter, ": option device"),
                    OpenComputeDevice(device));
}

HeadRuntime ReadHeadRuntime(OptionReader& reader, ComputeDType cpu_type) {
  HeadRuntime runtime;
  runtime.device = ReadDevice(reader);
  const int64_t threads = reader.Integer("threads", {2, 1, 256});
  runtime.prefix_cache_bytes =
      reader.Integer("prefix_cache_mib", {64, 0, 1 << 20}) << 20;
  runtime.dtype = ReadComputeType(runtime.is_cpu(), cpu_type, reader);
  const int64_t seed = reader.Integer(
      "random_weights", {-1, 0, std::numeric_limits<int64_t>::max()});
  if (seed >= 0) runtime.random_weights = seed;
  const auto kernels = nn::FindBackend(reader.Text("cpu_kernels", "auto"));
  if (!kernels.ok()) {
    reader.Fail("cpu_kernels", kernels.status().message());
    return runtime;
  }
  runtime.kernels = *kernels;
  // Not pinned: all heads of a machine would be on its first cores.
  runtime.pool = std::make_unique<nn::ThreadPool>(
      nn::ThreadPool::Options{.threads = threads, .pin_workers = false});
  return runtime;
}

}  // namespace espalier::drafter
