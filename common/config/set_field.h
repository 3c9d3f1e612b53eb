#ifndef ESPALIER_COMMON_CONFIG_SET_FIELD_H_
#define ESPALIER_COMMON_CONFIG_SET_FIELD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace espalier {

// Sets one field of a message. The path joins fields, list indices and map keys
// by dots: "server.drain_seconds", "drafters.0.name" (the index after the last
// one appends), "engine.options.table". A list without an index is replaced by
// the one value.
// INVALID_ARGUMENT names the path and the fields that are known there.
absl::Status SetField(absl::string_view path, absl::string_view value,
                      google::protobuf::Message& message);

// Returns the names of the fields of a message type: "a, b, c".
std::string FieldNames(const google::protobuf::Descriptor& type);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_SET_FIELD_H_
