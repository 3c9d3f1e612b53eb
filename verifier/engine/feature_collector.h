#ifndef ESPALIER_VERIFIER_ENGINE_FEATURE_COLLECTOR_H_
#define ESPALIER_VERIFIER_ENGINE_FEATURE_COLLECTOR_H_

#include <cstdint>

#include "common/model/language_model.h"
#include "common/speculation/features.h"
#include "common/speculation/messages.h"
#include "verifier/engine/session.h"

namespace espalier::verifier {

// The target's hidden states that a session's drafters asked for: collected
// pass by pass, on the host or in the model's ring, and returned with the
// round's result. What a session keeps is in its fields `wanted`, `taps`,
// `features` and `stored`. Used on the engine's executor.
class FeatureCollector {
 public:
  // keeps_all: features also come to the host for sessions that share the text.
  // `model` must outlive this object.
  FeatureCollector(LanguageModel& model, bool keeps_all)
      : model_(model), keeps_all_(keeps_all) {}

  // Notes what the session's request wants, and continues the features that
  // earlier requests have collected and not returned.
  void Want(const FeatureRequest& wanted, Session& session) const;

  // Returns whether the session's features come to the host: to return them, or
  // for sessions that share the text. Others stay on the device.
  bool Collects(const Session& session) const;

  // Move what was collected into the round's result, in the form in which it
  // was asked for.
  FeatureRows Take(Session& session) const;
  StoredSegments TakeStored(Session& session) const;

 private:
  int64_t hidden_size() const { return model_.info().config.hidden_size; }

  LanguageModel& model_;
  const bool keeps_all_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_FEATURE_COLLECTOR_H_
