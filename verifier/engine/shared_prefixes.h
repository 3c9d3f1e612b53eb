#ifndef ESPALIER_VERIFIER_ENGINE_SHARED_PREFIXES_H_
#define ESPALIER_VERIFIER_ENGINE_SHARED_PREFIXES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/model/language_model.h"
#include "common/speculation/logprobs.h"
#include "verifier/engine/feature_cache.h"
#include "verifier/engine/logprob_cache.h"
#include "verifier/engine/session.h"
#include "verifier/engine/verifier_metrics.h"

namespace espalier::verifier {

// Holds what sessions whose texts begin alike take from each other, and from
// earlier ones: the model's K/V, and the features and log-probabilities that
// belong to it, where the sequences have the same cache_salt. Used on the
// engine's executor.
class SharedPrefixes {
 public:
  struct Options {
    bool enabled = true;  // false: nothing is shared
    int64_t max_feature_bytes = 0;
  };
  // `model` and `metrics` must outlive this object.
  SharedPrefixes(const Options& options, LanguageModel& model,
                 VerifierMetrics& metrics);

  bool enabled() const { return enabled_; }

  // Offers the session's K/V to others, and takes what they offered of the text
  // before the root. Features that the session lacks and nobody kept are not
  // given up for it: a head that lacks the prompt's features drafts badly for
  // the whole answer, so these positions are computed.
  void Share(Session& session);

  // Returns the room of what Share will take of pages that others hold, for a
  // session that holds nothing and has a request. If these end before it does,
  // it holds their pages alone; if less is left when it is admitted, K/V is
  // computed, and preemption finds the room.
  int64_t RoomOfOthers(const Session& session) const;

  // Keep features and log-probabilities of committed positions for other
  // sessions. The features follow those of the last call, or overlap them;
  // after a gap, a new block begins.
  void OfferFeatures(Session& session);
  void OfferLogprobs(const Session& session);

  // Begins the log-probabilities of the prompt that a request wants. They need
  // the logits of every position, so the session's cache is cut where none are
  // known.
  void WantLogprobs(const LogprobRequest& wanted, Session& session);

 private:
  void TakeFeatures(absl::Span<const TokenId> text, Session& session);

  const bool enabled_;
  LanguageModel& model_;
  VerifierMetrics& metrics_;
  FeatureCache features_;
  LogprobCache logprobs_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_SHARED_PREFIXES_H_
