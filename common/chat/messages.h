#ifndef ESPALIER_COMMON_CHAT_MESSAGES_H_
#define ESPALIER_COMMON_CHAT_MESSAGES_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/conversation.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Returns whether a message may have this role.
bool IsChatRole(std::string_view role);

// A FieldError unless there are messages, each has a role, and the last can be
// continued if it is to be.
absl::Status CheckMessages(const Conversation& conversation);

// Returns what a template reads: {"messages": [...], "tools": [...], and the
// template's arguments}. Keys keep their order, as templates print them.
// Arguments of tool calls become objects. FieldErrors.
absl::StatusOr<nlohmann::ordered_json> ToTemplateInput(
    const Conversation& conversation);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CHAT_MESSAGES_H_
