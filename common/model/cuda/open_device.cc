#include "common/model/cuda/open_device.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/open_emulated_device.h"
#include "common/model/native/model_limits.h"

namespace espalier {

absl::StatusOr<std::unique_ptr<cuda::ComputeDevice>> OpenComputeDevice(
    const std::string& name) {
  ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(name));
  if (device.is_cpu()) {
    return absl::FailedPreconditionError(
        "the cuda backend does not run on the device \"cpu\"");
  }
  return WithPrefix(absl::StrCat("device \"", name, "\""),
                    device.kind == DeviceName::Kind::kEmulated
                        ? cuda::OpenEmulatedDevice()
                        : cuda::OpenCudaDevice(device.index));
}

}  // namespace espalier
