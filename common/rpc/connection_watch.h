#ifndef ESPALIER_COMMON_RPC_CONNECTION_WATCH_H_
#define ESPALIER_COMMON_RPC_CONNECTION_WATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/token_bucket.h"
#include "common/rpc/http2_frames.h"

namespace espalier {

// Follows one connection of a gRPC server from outside, by the bytes of both
// directions, and finds what gRPC 1.51 itself does not limit: streams of a
// client that never acknowledges the server's settings, rapid resets, floods
// of headers, pings and settings, and messages that never end. Not
// thread-safe.
class ConnectionWatch {
 public:
  struct Limits {
    size_t max_streams = 100;  // open at a time; a few more are tolerated
    // Limits HEADERS and its CONTINUATIONs, compressed.
    size_t max_header_bytes = 64 << 10;
    // From the first byte of a message to its last one, and from the start of
    // a call to the end of its first message.
    absl::Duration message_time = absl::Seconds(60);
    // RST_STREAM frames of the client, as in nghttp2: each one may leave work
    // that its call has caused.
    double reset_burst = 1000;
    double resets_per_second = 33;
    // Pings and settings, which the server has to answer.
    double control_burst = 1000;
    double controls_per_second = 33;
  };

  explicit ConnectionWatch(const Limits& limits);

  // Each returns why the connection is to be closed, a word for a metric's
  // label; empty: it is not.
  absl::string_view Received(absl::string_view bytes, absl::Time now);
  absl::string_view Sent(absl::string_view bytes, absl::Time now);
  absl::string_view CheckTime(absl::Time now);

  // Bytes that have arrived of messages that are not complete.
  int64_t unfinished_bytes() const { return unfinished_bytes_; }

 private:
  class FromClient;
  class FromServer;

  // A call. The next message begins with 5 bytes: a flag and its size.
  struct Stream {
    bool client_ended = false;
    bool server_ended = false;
    bool had_message = false;
    absl::Time since;  // of the call, then of the unfinished message
    std::array<uint8_t, 5> prefix = {};
    size_t have = 0;    // bytes of the unfinished message, prefix included
    uint64_t size = 0;  // of the message with its prefix; 0: not known yet

    // Returns true if the server waits for the rest of a message.
    bool waits() const {
      return !client_ended && !server_ended && (have > 0 || !had_message);
    }
    size_t Take(absl::string_view data);
  };

  void OpenStream(uint32_t id);
  void AddHeaders(const Http2Frame& frame);
  void AddData(uint32_t id, absl::string_view data);
  void DropMessage(Stream& stream);
  void EndStream(uint32_t id, bool Stream::*ended);
  void Erase(uint32_t id);
  void Blame(absl::string_view reason);

  const Limits limits_;
  Http2Frames received_;
  Http2Frames sent_;
  absl::Time now_ = absl::InfinitePast();  // of the latest bytes
  absl::flat_hash_map<uint32_t, Stream> streams_;
  uint32_t last_stream_ = 0;
  size_t header_bytes_ = 0;  // of the block that is not complete
  int64_t unfinished_bytes_ = 0;
  TokenBucket resets_;
  TokenBucket controls_;
  absl::string_view blame_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_CONNECTION_WATCH_H_
