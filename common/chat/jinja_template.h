#ifndef ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_
#define ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Whether this build has the Jinja engine.
bool HasJinja();

// The template of the tokenizer's model. FAILED_PRECONDITION: it is malformed,
// or uses what the engine does not have. REQUIRES: HasJinja.
absl::StatusOr<std::unique_ptr<ChatTemplate>> NewJinjaTemplate(
    const Tokenizer* tokenizer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_
