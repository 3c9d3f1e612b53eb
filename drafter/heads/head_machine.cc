#include "drafter/heads/head_machine.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/nn/cpu_backend.h"

namespace espalier::drafter {

NativeLayers::Machine HeadMachine::layers() const {
  return {.kernels = *kernels,
          .operand = dtype == ComputeDType::kBFloat16 ? kernels->fast_operand
                                                      : kernels->exact_operand,
          .pool = *pool};
}

HeadMachine ReadHeadMachine(OptionReader& reader) {
  HeadMachine machine;
  const int64_t threads = reader.Integer("threads", {1, 1, 256});
  const std::string type = reader.Text("compute_type", "bfloat16");
  if (type == "bfloat16") {
    machine.dtype = ComputeDType::kBFloat16;
  } else if (type != "float32") {
    reader.Fail("compute_type", absl::StrCat("\"", type,
                                             "\" is not one of bfloat16, "
                                             "float32"));
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
