#ifndef ESPALIER_COMMON_CONFIG_FOLLOW_CONFIG_H_
#define ESPALIER_COMMON_CONFIG_FOLLOW_CONFIG_H_

#include <functional>

#include "absl/status/status.h"
#include "common/base/reload.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace espalier {

// Sets the log's level as `config`, a service's configuration, says, and has
// `reload` do so again: `load` then fills an empty message of the same type.
// Further fields that have changed take a restart, which the log says.
// INVALID_ARGUMENT names the field.
absl::Status FollowConfig(
    const google::protobuf::Message& config,
    std::function<absl::Status(google::protobuf::Message&)> load,
    Reload& reload);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_FOLLOW_CONFIG_H_
