#ifndef ESPALIER_COORDINATOR_CLI_RESUMPTION_H_
#define ESPALIER_COORDINATOR_CLI_RESUMPTION_H_

#include <grpcpp/support/status.h>

#include <vector>

#include "coordinator/cli/answer.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// Returns true if another server, or the same one later, may go on with the
// answer of a call that ended like this.
bool IsResumable(const grpc::Status& status);

// The request for what `answers` lack of the answer to `request`; `request`
// itself if they have no tokens. `answers`: one for each output, in order.
v1::GenerateRequest RestOf(const v1::GenerateRequest& request,
                           const std::vector<Answer>& answers);

// Prepares `answers` for the messages of another call.
void BeginResumption(std::vector<Answer>& answers);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_RESUMPTION_H_
