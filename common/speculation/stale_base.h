#ifndef ESPALIER_COMMON_SPECULATION_STALE_BASE_H_
#define ESPALIER_COMMON_SPECULATION_STALE_BASE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace espalier {

// FAILED_PRECONDITION that carries the number of committed tokens that the
// receiver holds and agrees on; 0 if it does not know the sequence.
absl::Status StaleBaseError(int64_t held_length, int64_t base_length);

// Makes `status`, as received from a peer, a StaleBaseError again.
absl::Status WithHeldLength(absl::Status status, int64_t held_length);

// Returns the held length of a StaleBaseError; nullopt for every other status.
std::optional<int64_t> HeldLength(const absl::Status& status);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_STALE_BASE_H_
