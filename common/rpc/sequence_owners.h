#ifndef ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_
#define ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/speculation/types.h"

namespace espalier {

// Records which stream owns each open sequence of a service: the stream that
// opened it, for as long as that stream lives. A sequence none of whose
// requests has succeeded is owned only while one of them is in progress.
// Thread-safe.
class SequenceOwners {
 public:
  // Identifies a stream; never dereferenced.
  using Stream = const void*;

  // Far more than engines allow. Bounds what a peer can make a service store.
  static constexpr size_t kMaxSequences = 65536;

  // Makes `stream` the owner of the sequence for a request that begins, which
  // Settle ends. If there is no room, the stream with the most sequences loses
  // one, which is returned to be ended; not if this stream has as many.
  //   PERMISSION_DENIED: another stream owns the sequence
  //   RESOURCE_EXHAUSTED: no room for a new one
  absl::StatusOr<std::optional<SequenceId>> Claim(SequenceId sequence,
                                                  Stream stream);
  // A request of Claim has ended. True: the stream does not own the sequence
  // any more, as no request has succeeded; it should be ended.
  bool Settle(SequenceId sequence, Stream stream, bool success);

  // False if `stream` does not own it.
  bool Release(SequenceId sequence, Stream stream);
  std::vector<SequenceId> ReleaseAll(Stream stream);
  bool OwnsAny(Stream stream) const;
  bool Owns(SequenceId sequence, Stream stream) const;

 private:
  struct Owned {
    Stream stream;
    int64_t in_progress = 0;   // requests
    bool established = false;  // one has succeeded
  };
  using Entries = absl::flat_hash_map<SequenceId, Owned>;

  std::optional<SequenceId> TakeOneFor(Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Entries owned_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Stream, size_t> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_SEQUENCE_OWNERS_H_
