#ifndef ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_
#define ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Returns the template of the tokenizer's model. FAILED_PRECONDITION: it is
// malformed, or uses a filter or a test that Jinja2 does not have.
absl::StatusOr<std::unique_ptr<ChatTemplate>> NewJinjaTemplate(
    const Tokenizer* tokenizer);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_JINJA_TEMPLATE_H_
