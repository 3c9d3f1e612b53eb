// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_CATCH_TORCH_H_
#define ESPALIER_COMMON_MODEL_ATEN_CATCH_TORCH_H_

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier {

// Runs `call`, which returns a Status or a StatusOr, and turns libtorch's
// exceptions into a status. The only place that catches them.
template <typename Call>
auto CatchTorch(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("libtorch: ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("libtorch: ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("libtorch: ", error.what()));
  }
}

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_CATCH_TORCH_H_
