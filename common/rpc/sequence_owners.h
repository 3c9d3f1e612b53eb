#ifndef ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_
#define ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/spec/types.h"

namespace espalier {

// Which stream each open sequence of a service belongs to: the one that spoke
// of it last. So a stream that is found dead late does not end sequences that
// its coordinator has gone on with over a new one. Thread-safe.
class SequenceOwners {
 public:
  // Identifies a stream; never dereferenced.
  using Stream = const void*;

  // Far above what engines allow: bounds what a peer can make us remember.
  static constexpr size_t kMaxSequences = 65536;

  // `stream` owns the sequence from now on. False: no room for a new one.
  bool Claim(SequenceId sequence, Stream stream);
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
