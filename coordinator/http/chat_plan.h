#ifndef ESPALIER_COORDINATOR_HTTP_CHAT_PLAN_H_
#define ESPALIER_COORDINATOR_HTTP_CHAT_PLAN_H_

#include "absl/status/status.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/http/field_table.h"

namespace espalier::coordinator {

// Fits a chat to the served model: how it is told of tools, what its output is
// held to, and how that is read. FieldErrors.
absl::Status PlanChat(const ServedModel& model, ApiRequest& request);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_CHAT_PLAN_H_
