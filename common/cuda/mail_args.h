// How a pass's requests and answers go between the host's memory and the
// device's (common/model/cuda/mailbox.h).
#ifndef ESPALIER_COMMON_CUDA_MAIL_ARGS_H_
#define ESPALIER_COMMON_CUDA_MAIL_ARGS_H_

#include <cstdint>

namespace espalier::cuda {

// Kernels carry mail, in place of copies, and show the host a flag when it is
// there. `tests/device/run.sh tune` decides about it on a GPU.
inline constexpr bool kCarriesMail = false;

inline constexpr int kMailThreads = 1024;
inline constexpr int kMailPieces = 4;  // of 16 bytes, of a thread
// Larger mail is copied.
inline constexpr int64_t kMaxMailBytes =
    int64_t{16} * kMailPieces * kMailThreads;

// Copies from one memory to the other. Then raises a flag in the host's, if
// there is one: who sees it sees what this kernel and all before it wrote.
struct MailArgs {
  unsigned char* to = nullptr;  // aligned to 16
  const unsigned char* from = nullptr;
  int64_t bytes = 0;         // a multiple of 16, at most kMaxMailBytes
  uint32_t* flag = nullptr;  // null: none
  uint32_t number = 0;       // that the flag becomes
  bool operator==(const MailArgs&) const = default;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_MAIL_ARGS_H_
