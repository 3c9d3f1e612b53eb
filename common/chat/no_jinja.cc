// Of builds without the Jinja engine.
#include "absl/status/status.h"
#include "common/chat/jinja_template.h"

namespace espalier {

bool HasJinja() { return false; }

absl::StatusOr<std::unique_ptr<ChatTemplate>> NewJinjaTemplate(
    const Tokenizer* /*tokenizer*/) {
  return absl::FailedPreconditionError("this build has no Jinja engine");
}

}  // namespace espalier
