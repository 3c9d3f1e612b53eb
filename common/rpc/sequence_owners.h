#ifndef ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_
#define ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/spec/types.h"

namespace espalier {

// Records which stream owns each open sequence of a service: the stream that
// opened it, for as long as that stream lives. Thread-safe.
class SequenceOwners {
 public:
  // Identifies a stream; never dereferenced.
  using Stream = const void*;

  // Far more than engines allow. Bounds what a peer can make a service store.
  static constexpr size_t kMaxSequences = 65536;

  // Makes `stream` the owner of the sequence. PERMISSION_DENIED: another stream
  // owns it; RESOURCE_EXHAUSTED: no room for a new sequence.
  absl::Status Claim(SequenceId sequence, Stream stream);
  // False if `stream` does not own it.
  bool Release(SequenceId sequence, Stream stream);
  std::vector<SequenceId> ReleaseAll(Stream stream);
  bool OwnsAny(Stream stream) const;
  bool Owns(SequenceId sequence, Stream stream) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<SequenceId, Stream> owner_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_
