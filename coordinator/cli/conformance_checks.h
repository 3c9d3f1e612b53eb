#ifndef ESPALIER_COORDINATOR_CLI_CONFORMANCE_CHECKS_H_
#define ESPALIER_COORDINATOR_CLI_CONFORMANCE_CHECKS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/spec/messages.h"
#include "espalier/v1/drafter.grpc.pb.h"

namespace espalier::cli {

// The drafter under test, and what a coordinator knows.
struct ConformanceSubject {
  v1::Drafter::Stub* stub;
  ModelIdentity model;        // the target's
  std::vector<TokenId> text;  // of its vocabulary; at least 32
  absl::Duration timeout;     // of one check
};

// One thing that every drafter service must do.
struct ConformanceCheck {
  std::string name;
  // OK, or what it did instead.
  std::function<absl::Status(const ConformanceSubject&)> run;
};

const std::vector<ConformanceCheck>& ConformanceChecks();

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CONFORMANCE_CHECKS_H_
