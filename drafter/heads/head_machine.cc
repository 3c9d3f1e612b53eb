#include "drafter/heads/head_machine.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/nn/cpu_backend.h"

namespace espalier::drafter {

NativeLayers::Machine HeadMachine::layers() const {
  return {.kernels = *kernels,
          .operand = dtype == ComputeDType::kFloat32 ? kernels->exact_operand
                                                     : kernels->fast_operand,
          .pool = *pool};
}

HeadMachine ReadHeadMachine(OptionReader& reader) {
  HeadMachine machine;
  const int64_t threads = reader.Integer("threads", {2, 1, 256});
  const std::string type = reader.Text("compute_type", "bfloat16");
  bool known = false;
  for (ComputeDType dtype :
       {ComputeDType::kFloat32, ComputeDType::kBFloat16, ComputeDType::kInt8}) {
    if (type != NameOf(dtype)) continue;
    machine.dtype = dtype;
    known = true;
  }
  if (!known) {
    reader.Fail(
        "compute_type",
        absl::StrCat("\"", type, "\" is not one of float32, bfloat16, int8"));
  }
  const auto kernels = nn::FindBackend(reader.Text("cpu_kernels", "auto"));
  if (!kernels.ok()) {
    reader.Fail("cpu_kernels", kernels.status().message());
    return machine;
  }
  machine.kernels = *kernels;
  // Not pinned: all heads of a machine would be on its first cores.
  machine.pool = std::make_unique<nn::ThreadPool>(
      nn::ThreadPool::Options{.threads = threads, .pin_workers = false});
  return machine;
}

}  // namespace espalier::drafter
