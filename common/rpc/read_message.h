// Parses messages from bytes, after a walk over them that bounds what the
// parsed message may occupy. gRPC's own parsing answers a malformed
// message with UNIMPLEMENTED and no text, lets protobuf write to the log, and
// silently takes the last member if a oneof has several.
#ifndef ESPALIER_COMMON_RPC_READ_MESSAGE_H_
#define ESPALIER_COMMON_RPC_READ_MESSAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace espalier {

// Limits what a message may have, with all messages in it. A field occupies up
// to some dozens of bytes when it is parsed, even if it is empty; packed
// numbers, which are one field, occupy what they are.
struct MessageLimits {
  int64_t fields = 0;
  int64_t repeated = 0;  // of one repeated field
  int64_t unknown = 0;   // not in the message's type
};
inline constexpr MessageLimits kClientLimits = {
    .fields = 1 << 17, .repeated = 4096, .unknown = 1024};
// Messages between services get more, because a message may list many segments
// of a feature ring.
inline constexpr MessageLimits kPeerLimits = {
    .fields = 1 << 18, .repeated = 1 << 15, .unknown = 1024};

// Checks that `bytes` are a message of this type: fields that end in it, every
// string valid UTF-8, at most one member of each oneof, and no more of
// anything than the limits above. Overlong tags and packed numbers are left to
// the parser. A FieldError (request_errors.h) names the field, e.g.
// "chat.messages[1].content", and the byte in it.
absl::Status CheckMessageBytes(const google::protobuf::Descriptor& type,
                               absl::string_view bytes,
                               const MessageLimits& limits = kClientLimits);

// Parses `buffer` into `message`. Errors as above.
absl::Status ReadMessage(const grpc::ByteBuffer& buffer,
                         google::protobuf::Message& message,
                         const MessageLimits& limits = kClientLimits);

template <typename Message>
absl::StatusOr<Message> ReadAs(const grpc::ByteBuffer& buffer,
                               const MessageLimits& limits = kClientLimits) {
  Message message;
  RETURN_IF_ERROR(ReadMessage(buffer, message, limits));
  return message;
}

grpc::ByteBuffer WriteMessage(const google::protobuf::Message& message);

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_READ_MESSAGE_H_
