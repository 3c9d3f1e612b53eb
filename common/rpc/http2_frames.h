#ifndef ESPALIER_COMMON_RPC_HTTP2_FRAMES_H_
#define ESPALIER_COMMON_RPC_HTTP2_FRAMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace espalier {

// The header of an HTTP/2 frame (RFC 9113, 4.1).
struct Http2Frame {
  // Types and flags that are used here.
  static constexpr uint8_t kData = 0;
  static constexpr uint8_t kHeaders = 1;
  static constexpr uint8_t kRstStream = 3;
  static constexpr uint8_t kSettings = 4;
  static constexpr uint8_t kPing = 6;
  static constexpr uint8_t kContinuation = 9;
  static constexpr uint8_t kEndStream = 1;   // of kData and kHeaders
  static constexpr uint8_t kAck = 1;         // of kSettings and kPing
  static constexpr uint8_t kEndHeaders = 4;  // of kHeaders, kContinuation

  uint32_t length = 0;  // of the payload, in bytes
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;  // 0: the connection

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  bool EndsStream() const {
    return (type == kData || type == kHeaders) && has(kEndStream);
  }
};

// Splits one direction of a connection into frames, in pieces as they arrive.
// Checks nothing: what is no HTTP/2 gives frames that make no sense.
class Http2Frames {
 public:
  // `skipped`: bytes before the first frame (a client's preface).
  explicit Http2Frames(size_t skipped) : skipped_(skipped) {}

  // For each frame calls visitor.OnFrame(frame), then
  // visitor.OnPayload(frame, piece) for the pieces of its payload as they
  // arrive, and visitor.OnFrameEnd(frame) when all have arrived.
  template <typename Visitor>
  void Feed(absl::string_view bytes, Visitor& visitor) {
    Take(bytes, skipped_);
    while (!bytes.empty()) {
      if (payload_left_ > 0) {
        visitor.OnPayload(frame_, Take(bytes, payload_left_));
        if (payload_left_ == 0) visitor.OnFrameEnd(frame_);
        continue;
      }
      const size_t size = std::min(bytes.size(), header_.size() - have_);
      std::copy_n(bytes.data(), size, header_.data() + have_);
      bytes.remove_prefix(size);
      have_ += size;
      if (have_ < header_.size()) return;
      have_ = 0;
      frame_ = Parse();
      payload_left_ = frame_.length;
      visitor.OnFrame(frame_);
      if (payload_left_ == 0) visitor.OnFrameEnd(frame_);
    }
  }

 private:
  // Removes up to `left` bytes and subtracts their number.
  static absl::string_view Take(absl::string_view& bytes, size_t& left) {
    const absl::string_view taken = bytes.substr(0, left);
    bytes.remove_prefix(taken.size());
    left -= taken.size();
    return taken;
  }

  Http2Frame Parse() const {
    const auto byte = [this](size_t i) {
      return uint32_t{static_cast<uint8_t>(header_[i])};
    };
    return {.length = byte(0) << 16 | byte(1) << 8 | byte(2),
            .type = static_cast<uint8_t>(byte(3)),
            .flags = static_cast<uint8_t>(byte(4)),
            .stream = (byte(5) & 0x7f) << 24 | byte(6) << 16 | byte(7) << 8 |
                      byte(8)};
  }

  size_t skipped_;
  std::array<char, 9> header_ = {};
  size_t have_ = 0;  // bytes of header_
  Http2Frame frame_;
  size_t payload_left_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_HTTP2_FRAMES_H_
