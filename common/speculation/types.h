#ifndef ESPALIER_COMMON_SPECULATION_TYPES_H_
#define ESPALIER_COMMON_SPECULATION_TYPES_H_

#include <cstdint>
#include <utility>

namespace espalier {

// Index into the target's vocabulary, 0 .. vocab_size - 1.
using TokenId = int32_t;

// Identifies one decoding session towards its peers.
struct SequenceId {
  // Sampled at random when a coordinator starts, so that the sequences of a
  // coordinator that died are never mistaken for those of its successor.
  uint64_t coordinator_epoch = 0;
  uint64_t number = 0;  // unique within the epoch

  friend bool operator==(const SequenceId&, const SequenceId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const SequenceId& id) {
    return H::combine(std::move(hash), id.coordinator_epoch, id.number);
  }
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_TYPES_H_
