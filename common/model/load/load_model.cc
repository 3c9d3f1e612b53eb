#include "common/model/load/load_model.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/aten/load_aten.h"
#include "common/model/cuda/cuda_model.h"
#include "common/model/cuda/open_device.h"
#include "common/model/native/model_limits.h"
#include "common/model/native/native_model.h"
#include "common/nn/cpu_backend.h"

namespace espalier {
namespace {

// The portable kernels run on every CPU, but libtorch is faster.
bool HasFastKernels() {
  return absl::string_view(nn::UsableBackends().front()->name) != "portable";
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadOnCuda(
    const ModelOptions& options) {
  ASSIGN_OR_RETURN(auto device, OpenComputeDevice(options.device));
  return LoadCudaModel(options, std::move(device));
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadBest(
    const ModelOptions& options) {
  ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(options.device));
  if (!device.is_cpu()) return LoadOnCuda(options);
  if (HasFastKernels() || !HasAten()) {
    auto native = LoadNativeModel(options);
    if (!absl::IsUnimplemented(native.status()) || !HasAten()) return native;
  }
  return LoadAtenModel(options);
}

}  // namespace

std::vector<std::string> ModelBackends() {
  if (HasAten()) return {"native", "aten"};
  return {"native"};
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadModel(
    const ModelOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.backend == "auto") return LoadBest(options);
  if (options.backend == "native") return LoadNativeModel(options);
  if (options.backend == "aten") return LoadAtenModel(options);
  if (options.backend == "cuda") return LoadOnCuda(options);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown backend \"", options.backend, "\"; known: auto, ",
                   absl::StrJoin(ModelBackends(), ", "), ", cuda"));
}

}  // namespace espalier
