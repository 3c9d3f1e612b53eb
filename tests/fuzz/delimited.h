#ifndef ESPALIER_TESTS_FUZZ_DELIMITED_H_
#define ESPALIER_TESTS_FUZZ_DELIMITED_H_

#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace espalier::testing {

// Messages one after another, each after its size.
template <typename Message>
std::string Delimited(const std::vector<Message>& messages) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  for (const Message& message : messages) {
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(message,
                                                               &stream);
  }
  return bytes;
}

// Returns the messages before the first that cannot be parsed.
template <typename Message>
std::vector<Message> ReadDelimited(std::string_view bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(),
                                                static_cast<int>(bytes.size()));
  std::vector<Message> messages;
  Message message;
  while (google::protobuf::util::ParseDelimitedFromZeroCopyStream(
      &message, &stream, nullptr)) {
    messages.push_back(message);
    message.Clear();
  }
  return messages;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_DELIMITED_H_
