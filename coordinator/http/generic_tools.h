#ifndef ESPALIER_COORDINATOR_HTTP_GENERIC_TOOLS_H_
#define ESPALIER_COORDINATOR_HTTP_GENERIC_TOOLS_H_

#include "absl/status/status.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Rewrites a chat for a template that knows no tools: they are described in the
// system's message, calls become text of the assistant, and results text of the
// user, in Hermes' format. FieldErrors.
absl::Status DescribeTools(v1::Chat& chat);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_GENERIC_TOOLS_H_
