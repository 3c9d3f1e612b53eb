#include "common/rpc/connection_watch.h"

#include <algorithm>

namespace espalier {
namespace {

// "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
constexpr size_t kPrefaceBytes = 24;
// Streams above the limit that a client may open before it knows the limit, or
// before it knows that others have ended.
constexpr size_t kTolerated = 28;

}  // namespace

class ConnectionWatch::FromClient {
 public:
  explicit FromClient(ConnectionWatch& watch) : watch_(watch) {}

  void OnFrame(const Http2Frame& frame) {
    switch (frame.type) {
      case Http2Frame::kHeaders:
        watch_.OpenStream(frame.stream);
        watch_.AddHeaders(frame);
        break;
      case Http2Frame::kContinuation:
        watch_.AddHeaders(frame);
        break;
      case Http2Frame::kRstStream:
        watch_.Erase(frame.stream);
        if (!watch_.resets_.Take(watch_.now_)) watch_.Blame("resets");
        break;
      case Http2Frame::kSettings:
      case Http2Frame::kPing:
        if (!frame.has(Http2Frame::kAck) &&
            !watch_.controls_.Take(watch_.now_)) {
          watch_.Blame("control_frames");
        }
        break;
      default:
        break;
    }
  }

  void OnPayload(const Http2Frame& frame, absl::string_view piece) {
    if (frame.type == Http2Frame::kData) watch_.AddData(frame.stream, piece);
  }

  void OnFrameEnd(const Http2Frame& frame) {
    if (!frame.EndsStream()) return;
    watch_.EndStream(frame.stream, &Stream::client_ended);
  }

 private:
  ConnectionWatch& watch_;
};

class ConnectionWatch::FromServer {
 public:
  explicit FromServer(ConnectionWatch& watch) : watch_(watch) {}

  void OnFrame(const Http2Frame& frame) {
    if (frame.type == Http2Frame::kRstStream) watch_.Erase(frame.stream);
  }
  void OnPayload(const Http2Frame& /*frame*/, absl::string_view /*piece*/) {}
  void OnFrameEnd(const Http2Frame& frame) {
    if (!frame.EndsStream()) return;
    watch_.EndStream(frame.stream, &Stream::server_ended);
  }

 private:
  ConnectionWatch& watch_;
};

ConnectionWatch::ConnectionWatch(const Limits& limits)
    : limits_(limits),
      received_(kPrefaceBytes),
      sent_(0),
      resets_(limits.reset_burst, limits.resets_per_second),
      controls_(limits.control_burst, limits.controls_per_second) {}

absl::string_view ConnectionWatch::Received(absl::string_view bytes,
                                            absl::Time now) {
  now_ = now;
  FromClient visitor(*this);
  received_.Feed(bytes, visitor);
  return blame_;
}

absl::string_view ConnectionWatch::Sent(absl::string_view bytes,
                                        absl::Time now) {
  now_ = now;
  FromServer visitor(*this);
  sent_.Feed(bytes, visitor);
  return blame_;
}

absl::string_view ConnectionWatch::CheckTime(absl::Time now) {
  for (const auto& [id, stream] : streams_) {
    if (stream.waits() && now - stream.since > limits_.message_time) {
      Blame("slow_message");
    }
  }
  return blame_;
}

// Not for trailers, whose stream is open or has ended.
void ConnectionWatch::OpenStream(uint32_t id) {
  if (id <= last_stream_) return;
  last_stream_ = id;
  if (streams_.size() >= limits_.max_streams + kTolerated) {
    Blame("streams");
    return;
  }
  streams_[id].since = now_;
}

void ConnectionWatch::AddHeaders(const Http2Frame& frame) {
  header_bytes_ += frame.length;
  if (header_bytes_ > limits_.max_header_bytes) Blame("header_bytes");
  if (frame.has(Http2Frame::kEndHeaders)) header_bytes_ = 0;
}

void ConnectionWatch::AddData(uint32_t id, absl::string_view data) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.server_ended) return;
  Stream& stream = found->second;
  while (!data.empty()) {
    if (stream.have == 0 && stream.had_message) stream.since = now_;
    const size_t taken = stream.Take(data);
    data.remove_prefix(taken);
    unfinished_bytes_ += static_cast<int64_t>(taken);
    if (stream.have == stream.size) {
      DropMessage(stream);
      stream.had_message = true;
    }
  }
}

// Takes bytes of the prefix or of the content; returns how many.
size_t ConnectionWatch::Stream::Take(absl::string_view data) {
  if (have >= prefix.size()) {
    const size_t taken = std::min<uint64_t>(data.size(), size - have);
    have += taken;
    return taken;
  }
  const size_t taken = std::min(data.size(), prefix.size() - have);
  std::copy_n(data.data(), taken, prefix.data() + have);
  have += taken;
  if (have == prefix.size()) {
    uint64_t content = 0;
    for (size_t i = 1; i < prefix.size(); ++i)
      content = content << 8 | prefix[i];
    size = prefix.size() + content;
  }
  return taken;
}

void ConnectionWatch::DropMessage(Stream& stream) {
  unfinished_bytes_ -= static_cast<int64_t>(stream.have);
  stream.have = 0;
  stream.size = 0;
}

void ConnectionWatch::EndStream(uint32_t id, bool Stream::*ended) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.*ended = true;
  DropMessage(stream);
  if (stream.client_ended && stream.server_ended) streams_.erase(found);
}

void ConnectionWatch::Erase(uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  DropMessage(found->second);
  streams_.erase(found);
}

// The first reason counts.
void ConnectionWatch::Blame(absl::string_view reason) {
  if (blame_.empty()) blame_ = reason;
}

}  // namespace espalier
