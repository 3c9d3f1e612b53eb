#ifndef ESPALIER_DRAFTER_ENGINE_SEQUENCE_STORE_H_
#define ESPALIER_DRAFTER_ENGINE_SEQUENCE_STORE_H_

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/speculation/messages.h"
#include "common/speculation/types.h"
#include "drafter/engine/feature_store.h"

namespace espalier::drafter {

// The drafter's copy of each sequence's committed tokens, and the keeper of the
// target's features at their positions where it wants those. Bounded: the least
// recently updated sequences make room for others; the coordinator sends their
// tokens again when it next asks for them. Owned by DraftEngine, one thread.
class SequenceStore {
 public:
  struct Limits {
    int64_t max_sequences = 256;
    int64_t max_tokens = int64_t{1} << 20;  // of all sequences together
    // The most bytes of features of all sequences together. A sequence that
    // alone exceeds it loses its first features.
    int64_t max_feature_bytes = int64_t{1} << 30;
    absl::Duration max_idle = absl::Minutes(10);
  };
  // Called before tokens held under the id are cut off or dropped.
  using Forget = absl::AnyInvocable<void(SequenceId)>;

  // `features` must outlive this object; null: there are none.
  SequenceStore(const Limits& limits, Forget forget,
                FeatureStore* features = nullptr);

  // Brings a sequence up to date; sent twice, an update changes nothing.
  //   FAILED_PRECONDITION (StaleBaseError): the update does not extend the held
  //   prefix. INVALID_ARGUMENT: an update that makes no sense.
  //   RESOURCE_EXHAUSTED: longer than max_tokens.
  absl::Status Apply(const SequenceUpdate& update, absl::Time now);

  // Adds the features after those held. If there is a gap before them, or they
  // begin earlier, they replace those. Ignored if the sequence is not held.
  // REQUIRES: they fit the contract, and belong to the update applied last.
  void AddFeatures(SequenceId id, const FeatureRows& rows);

  // Adds features in a verifier's ring, as far as they are there.
  // FAILED_PRECONDITION: the ring cannot be read. REQUIRES: the segments follow
  // each other, up to a position before the root.
  absl::Status AddStored(SequenceId id, const StoredFeatures& stored);

  // Returns the committed tokens; null if the sequence is not held. Valid until
  // the next Apply, End or DropIdle.
  const std::vector<TokenId>* Find(SequenceId id) const;
  // Returns the positions whose features are held.
  FeatureRange FeaturesOf(SequenceId id) const;
  // Valid as long as what Find returns; empty if the sequence is not held.
  absl::string_view SaltOf(SequenceId id) const;

  void End(SequenceId id);        // unknown ids are ignored
  void DropIdle(absl::Time now);  // drops sequences not updated for max_idle
  int64_t num_sequences() const { return static_cast<int64_t>(index_.size()); }

 private:
  struct Sequence {
    SequenceId id;
    std::vector<TokenId> tokens = {};
    uint64_t hash = 0;  // PrefixHash(tokens)
    std::string salt = {};
    absl::Time updated = {};
    FeatureRange features = {};  // of positions below tokens.size()
  };
  using Sequences = std::list<Sequence>;

  // Fails unless the held tokens have `update`'s base as a prefix.
  static absl::Status CheckBase(const Sequence* held,
                                const SequenceUpdate& update);
  Sequences::iterator Open(SequenceId id);
  void Commit(Sequence& sequence, const SequenceUpdate& update);
  void Drop(Sequences::iterator sequence);
  // Makes those that are held end at `end`: `append` adds those from the held
  // ones' end on, which begin at `begin` or later, and returns which it added.
  void ExtendFeatures(Sequence& sequence, int64_t begin, int64_t end,
                      absl::FunctionRef<FeatureRange(FeatureRange)> append);
  // Drops features outside of `kept`, which is within those held.
  void CutFeatures(Sequence& sequence, FeatureRange kept);

  const Limits limits_;
  Forget forget_;
  FeatureStore* const features_;
  const int64_t feature_row_bytes_;
  Sequences sequences_;  // least recently updated first
  absl::flat_hash_map<SequenceId, Sequences::iterator> index_;
  int64_t num_tokens_ = 0;
  int64_t num_feature_bytes_ = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_SEQUENCE_STORE_H_
