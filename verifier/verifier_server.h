#ifndef ESPALIER_VERIFIER_VERIFIER_SERVER_H_
#define ESPALIER_VERIFIER_VERIFIER_SERVER_H_

#include "absl/status/statusor.h"
#include "common/rpc/shutdown_signals.h"
#include "espalier/v1/config.pb.h"
#include "verifier/verifier_builder.h"

namespace espalier::verifier {

// Runs the verifier service until a signal arrives; the exit status. If the
// model's device is lost to this process, health is NOT_SERVING, the streams
// end without being drained, and the status is the model's error: a supervisor
// starts the service again, and its coordinators go on from their tokens.
absl::StatusOr<int> RunVerifier(const v1::VerifierConfig& config,
                                ShutdownSignals& signals,
                                const ModelLoader& load = LoadModel);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFIER_SERVER_H_
