#ifndef ESPALIER_COORDINATOR_CLI_CLUSTER_CONFORMANCE_CHECKS_H_
#define ESPALIER_COORDINATOR_CLI_CLUSTER_CONFORMANCE_CHECKS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/access_token.h"
#include "common/speculation/messages.h"
#include "espalier/v1/drafter.grpc.pb.h"

namespace espalier::cli {

// The drafter under test, and the data that a coordinator would have.
struct ConformanceSubject {
  v1::Drafter::Stub* stub;
  ModelIdentity model;        // the target's
  std::vector<TokenId> text;  // tokens of the model; at least 32
  absl::Duration timeout;     // of one check
  AccessToken token = {};     // required by the drafter
};

// One requirement of every drafter service.
struct ConformanceCheck {
  std::string name;
  // OK, or what the drafter did wrong.
  std::function<absl::Status(const ConformanceSubject&)> run;
};

const std::vector<ConformanceCheck>& ConformanceChecks();

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CLUSTER_CONFORMANCE_CHECKS_H_
