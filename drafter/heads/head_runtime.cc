#include "drafter/heads/head_runtime.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/nn/cpu_backend.h"

namespace espalier::drafter {

NativeLayers::Runtime HeadRuntime::layers() const {
  return {.kernels = *kernels,
          .operand = dtype == ComputeDType::kFloat32 ? kernels->exact_operand
                                                     : kernels->fast_operand,
          .pool = *pool};
}

KvPageStore::Room HeadRuntime::Room(const KvPageShape& shape,
                                    int64_t total_tokens) const {
  const int64_t page_bytes =
      shape.page_floats() * static_cast<int64_t>(sizeof(float));
  return {
      .total_tokens = total_tokens,
      .max_cached_tokens = prefix_cache_bytes / page_bytes * nn::kPageTokens};
}

HeadRuntime ReadHeadRuntime(OptionReader& reader) {
  HeadRuntime runtime;
  const int64_t threads = reader.Integer("threads", {2, 1, 256});
  runtime.prefix_cache_bytes =
      reader.Integer("prefix_cache_mib", {64, 0, 1 << 20}) << 20;
  const std::string type = reader.Text("compute_type", "int8");
  bool known = false;
  for (ComputeDType dtype : kComputeDTypes) {
    if (type != NameOf(dtype)) continue;
    runtime.dtype = dtype;
    known = true;
  }
  if (!known) {
    reader.Fail("compute_type",
                absl::StrCat("\"", type,
                             "\" is not one of float32, bfloat16, int8, int4"));
  }
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
