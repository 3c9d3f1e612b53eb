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

// Sets one field of a message. The path names fields, list indices and map
// keys, joined by dots: "server.drain_seconds", "drafters.0.name" (the index
// behind the last appends), "engine.options.table". A list without an index is
// replaced by the one value.
// INVALID_ARGUMENT names the path and what is known there.
absl::Status SetField(absl::string_view path, absl::string_view value,
                      google::protobuf::Message& message);

// "a, b, c": what a message of the type may hold.
std::string FieldNames(const google::protobuf::Descriptor& type);

}  // namespace espalier

#endif  // ESPALIER_COMMON_CONFIG_SET_FIELD_H_
