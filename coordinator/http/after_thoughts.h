#ifndef ESPALIER_COORDINATOR_HTTP_AFTER_THOUGHTS_H_
#define ESPALIER_COORDINATOR_HTTP_AFTER_THOUGHTS_H_

#include "absl/status/status.h"
#include "espalier/v1/types.pb.h"

namespace espalier::coordinator {

// Makes a constraint apply to what follows the model's thoughts, for an output
// that begins within them: they end with "</think>" and an empty line.
// FieldError: the constraint is a malformed structural tag.
absl::Status HoldAfterThoughts(v1::StructuredOutput& output);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_AFTER_THOUGHTS_H_
