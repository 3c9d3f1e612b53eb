// Holds what a session's request needs of a pass, and gets.
#ifndef ESPALIER_VERIFIER_ENGINE_SESSION_PART_H_
#define ESPALIER_VERIFIER_ENGINE_SESSION_PART_H_

#include "common/model/language_model.h"
#include "verifier/engine/plan_pass.h"
#include "verifier/engine/session.h"
#include "verifier/engine/target_pass.h"

namespace espalier::verifier {

// Returns the rows that the session's request still needs. REQUIRES: it has
// one.
PassWork RemainingWork(const Session& session, const LanguageModel& model);

// Returns the session's part of a pass: its share of the request's rows, and
// what is computed from them. The part borrows from the session. REQUIRES: it
// has a request, whose rule is chosen. collects_features: see
// FeatureCollector::Collects.
TargetPass::Part PartOf(Session& session, const PassShare& share,
                        const LanguageModel& model, bool collects_features);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_SESSION_PART_H_
