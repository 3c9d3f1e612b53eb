#include "common/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <exception>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/printable.h"
#include "common/obs/log.h"
#include "nlohmann/json.hpp"

namespace espalier::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

constexpr size_t kFirstBytes = 1024;  // read of an idle connection
constexpr absl::Duration kLingerTime = absl::Seconds(2);

std::chrono::nanoseconds ToChrono(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

std::string PeerName(const asio::ip::tcp::socket& socket) {
  beast::error_code error;
  const asio::ip::tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "";
  const std::string address = peer.address().to_string(error);
  if (peer.address().is_v6()) {
    return absl::StrCat("ipv6:[", address, "]:", peer.port());
  }
  return absl::StrCat("ipv4:", address, ":", peer.port());
}

std::string Text(beast::string_view text) { return {text.data(), text.size()}; }

// What is wrong with a request that cannot be parsed. 0: nobody is to be told.
int StatusOf(beast::error_code error) {
  if (error == bhttp::error::header_limit) return 431;
  if (error == bhttp::error::body_limit) return 413;
  const bool is_ours =
      error.category() ==
      bhttp::make_error_code(bhttp::error::bad_method).category();
  if (!is_ours || error == bhttp::error::end_of_stream ||
      error == bhttp::error::partial_message) {
    return 0;
  }
  return 400;
}

std::string ErrorBody(const std::string& message) {
  return nlohmann::json{{"error",
                         {{"message", message},
                          {"type", "invalid_request_error"},
                          {"param", nullptr},
                          {"code", nullptr}}}}
      .dump();
}

}  // namespace

void Gate::Post(std::function<void()> task) {
  MutexLock lock(&mutex_);
  if (io_ != nullptr) asio::post(*io_, std::move(task));
}

void Gate::Close() {
  MutexLock lock(&mutex_);
  io_ = nullptr;
}

Connection::Connection(asio::ip::tcp::socket socket,
                       std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      stream_(std::move(socket), shared_->tls.Current()),
      pause_(stream_.get_executor()) {}

Connection::~Connection() {
  answer_.reset();
  shared_->table.ReleaseBody(reserved_body_);
  shared_->table.Remove(this);
}

void Connection::Start() {
  asio::post(stream_.get_executor(),
             [self = shared_from_this()] { self->Handshake(); });
}

void Connection::Handshake() {
  if (!stream_.has_tls()) return AwaitRequest();
  stream_.expires_after(ToChrono(shared_->limits.header_time));
  stream_.async_handshake([self = shared_from_this()](Error error) {
    if (error) return self->Shut();
    self->AwaitRequest();
  });
}

void Connection::Refuse() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->stream_.has_tls()) return self->Shut();
    self->Reject(503, "too many connections are open");
  });
}

void Connection::CloseIfIdle() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (!self->busy_) self->Shut();
  });
}

// Until the first byte of a request comes, a connection holds little memory.
void Connection::AwaitRequest() {
  parser_.reset();
  if (buffer_.size() > 0) {
    ReadHeader();
    return;
  }
  buffer_ = {};
  stream_.expires_after(ToChrono(shared_->limits.idle_time));
  stream_.async_read_some(
      buffer_.prepare(kFirstBytes),
      [self = shared_from_this()](Error error, size_t bytes) {
        if (error) return self->Shut();
        self->buffer_.commit(bytes);
        self->ReadHeader();
      });
}

void Connection::ReadHeader() {
  parser_.emplace();
  parser_->header_limit(shared_->limits.header_bytes);
  parser_->body_limit(shared_->limits.body_bytes);
  stream_.expires_after(ToChrono(shared_->limits.header_time));
  bhttp::async_read_header(stream_, buffer_, *parser_,
                           [self = shared_from_this()](Error error, size_t) {
                             self->OnHeader(error);
                           });
}

void Connection::OnHeader(Error error) {
  if (error) {
    const int status = StatusOf(error);
    if (status == 0) return Shut();
    return Reject(
        status,
        status == 413 ? absl::StrCat("the body is larger than ",
                                     shared_->limits.body_bytes, " bytes")
        : status == 431
            ? absl::StrCat("the header is larger than ",
                           shared_->limits.header_bytes, " bytes")
            : absl::StrCat("not a request of HTTP/1.1: ", error.message()));
  }
  busy_ = true;
  shared_->table.SetBusy(this);
  parser_->eager(true);
  if (beast::iequals(parser_->get()[bhttp::field::expect], "100-continue")) {
    SendContinue();
  } else {
    AllowBodyTime();
    ReadBody();
  }
}

void Connection::SendContinue() {
  out_ = "HTTP/1.1 100 Continue\r\n\r\n";
  AllowTime(out_.size());
  asio::async_write(stream_, asio::buffer(out_),
                    [self = shared_from_this()](Error error, size_t) {
                      if (error) return self->Shut();
                      self->AllowBodyTime();
                      self->ReadBody();
                    });
}

void Connection::AllowBodyTime() {
  stream_.expires_after(ToChrono(shared_->limits.body_time));
}

// In pieces, so that a body counts as far as it has come.
void Connection::ReadBody() {
  if (parser_->is_done()) return Dispatch();
  bhttp::async_read_some(stream_, buffer_, *parser_,
                         [self = shared_from_this()](Error error, size_t) {
                           self->OnBody(error);
                         });
}

void Connection::OnBody(Error error) {
  if (!error) {
    const size_t size = parser_->get().body().size();
    if (!shared_->table.ReserveBody(size - reserved_body_)) {
      return Reject(503, "too many bodies are being received; retry later");
    }
    reserved_body_ = size;
    return ReadBody();
  }
  const int status = StatusOf(error);
  if (status == 0) return Shut();
  Reject(status,
         status == 413
             ? absl::StrCat("the body is larger than ",
                            shared_->limits.body_bytes, " bytes")
             : absl::StrCat("not a body of HTTP/1.1: ", error.message()));
}

void Connection::Dispatch() {
  auto message = parser_->release();
  keep_alive_ = message.keep_alive();
  is_chunked_ = message.version() >= 11;
  is_head_ = message.method() == bhttp::verb::head;
  const std::string target = Text(message.target());
  const size_t question = target.find('?');
  Request request = {
      .method = Text(message.method_string()),
      .path = target.substr(0, question),
      .query = question == target.npos ? "" : target.substr(question + 1),
      .body = std::move(message.body()),
      .peer = PeerName(stream_.socket())};
  for (const auto& field : message) {
    request.headers.emplace_back(Text(field.name_string()),
                                 Text(field.value()));
  }
  stream_.expires_never();
  ++exchange_;
  is_stream_ = all_sent_ = false;
  try {
    answer_ = shared_->handler(std::move(request), NewWake());
  } catch (const std::exception& error) {
    LogError(absl::StrCat("HTTP: ", error.what()));
    return Reject(500, "an error of the server");
  }
  shared_->table.ReleaseBody(std::exchange(reserved_body_, 0));
  WatchClient();
  Pump();
}

void Connection::Reject(int status, const std::string& message) {
  ++exchange_;
  keep_alive_ = is_head_ = is_stream_ = all_sent_ = false;
  is_chunked_ = lingers_ = true;
  answer_ = std::make_unique<WholeAnswer>(
      Response{.status = status, .body = ErrorBody(message)});
  Pump();
}

Wake Connection::NewWake() {
  return [weak = weak_from_this(), shared = shared_, exchange = exchange_] {
    // No other thread may hold the last reference to a connection.
    shared->gate.Post([weak, exchange] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      asio::dispatch(self->stream_.get_executor(),
                     [self, exchange] { self->OnWake(exchange); });
    });
  };
}

void Connection::OnWake(uint64_t exchange) {
  if (exchange == exchange_) Pump();
}

void Connection::Pump() {
  if (answer_ == nullptr || sending_ || all_sent_) return;
  try {
    AskAnswer();
  } catch (const std::exception& error) {
    LogError(absl::StrCat("HTTP: ", error.what()));
    answer_.reset();
    Shut();
  }
}

void Connection::AskAnswer() {
  if (!is_stream_) {
    if (auto head = answer_->Begin()) SendHead(*std::move(head));
    return;
  }
  if (const std::optional<std::string> piece = answer_->Next()) {
    SendPiece(*piece);
  }
}

std::string Connection::HeadText(const Answer::Head& head) const {
  bhttp::response_header<> out;
  out.version(11);
  out.result(static_cast<unsigned>(head.response.status));
  out.set(bhttp::field::server, "espalier");
  out.set(bhttp::field::date,
          absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(),
                           absl::UTCTimeZone()));
  if (!head.response.content_type.empty()) {
    out.set(bhttp::field::content_type, head.response.content_type);
  }
  for (const auto& [name, value] : head.response.headers) {
    out.insert(name, Printable(value, /*max_bytes=*/1024));
  }
  if (!head.is_stream) {
    out.set(bhttp::field::content_length,
            absl::StrCat(head.response.body.size()));
  } else if (is_chunked_) {
    out.set(bhttp::field::transfer_encoding, "chunked");
  }
  out.set(bhttp::field::connection, keep_alive_ ? "keep-alive" : "close");
  std::ostringstream text;
  text << out;
  return text.str();
}

std::string Connection::Framed(const std::string& piece) const {
  if (!is_chunked_) return piece;
  if (piece.empty()) return beast::buffers_to_string(bhttp::make_chunk_last());
  return beast::buffers_to_string(bhttp::make_chunk(asio::buffer(piece)));
}

void Connection::SendHead(Answer::Head head) {
  is_stream_ = head.is_stream;
  all_sent_ = !is_stream_ || is_head_;
  keep_alive_ =
      keep_alive_ && !shared_->table.draining() && (is_chunked_ || !is_stream_);
  std::string text = HeadText(head);
  if (!is_head_ && !is_stream_) text += head.response.body;
  if (!is_head_ && is_stream_ && !head.response.body.empty()) {
    text += Framed(head.response.body);
  }
  Send(std::move(text));
}

void Connection::SendPiece(const std::string& piece) {
  all_sent_ = piece.empty();
  if (all_sent_ && !is_chunked_) return EndExchange();
  Send(Framed(piece));
}

void Connection::Send(std::string bytes) {
  out_ = std::move(bytes);
  sending_ = true;
  AllowTime(out_.size());
  asio::async_write(stream_, asio::buffer(out_),
                    [self = shared_from_this()](Error error, size_t) {
                      self->OnSent(error);
                    });
}

void Connection::OnSent(Error error) {
  sending_ = false;
  if (error) {
    answer_.reset();
    return Shut();
  }
  stream_.expires_never();
  if (all_sent_) return EndExchange();
  Pump();
}

void Connection::EndExchange() {
  answer_.reset();
  out_ = {};
  ++exchange_;
  busy_ = false;
  if (!keep_alive_ || shared_->table.draining()) return Linger();
  shared_->table.SetIdle(this, absl::Now());
  AwaitRequest();
}

void Connection::AllowTime(size_t bytes) {
  constexpr int64_t kBytesPerSecond = 16 << 10;
  stream_.expires_after(
      ToChrono(shared_->limits.write_time +
               absl::Seconds(static_cast<int64_t>(bytes) / kBytesPerSecond)));
}

void Connection::WatchClient() {
  if (watching_) return;
  watching_ = true;
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read,
      [self = shared_from_this()](Error error) { self->OnReadable(error); });
}

// Bytes that come early are a next request, and are left in the socket.
void Connection::OnReadable(Error error) {
  watching_ = false;
  if (answer_ == nullptr) return;
  char byte;
  const ssize_t bytes = error ? 0
                              : recv(stream_.socket().native_handle(), &byte, 1,
                                     MSG_PEEK | MSG_DONTWAIT);
  if (bytes > 0) return stream_.has_tls() ? WatchForEnd() : void();
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return WatchClient();
  }
  answer_.reset();
  Shut();
}

// Bytes of TLS may be its farewell, which the end of the connection follows.
void Connection::WatchForEnd() {
  constexpr std::chrono::milliseconds kPause(200);
  watching_ = true;
  pause_.expires_after(kPause);
  pause_.async_wait([self = shared_from_this()](Error) {
    self->watching_ = false;
    if (self->answer_ == nullptr) return;
    pollfd socket = {.fd = self->stream_.socket().native_handle(),
                     .events = POLLRDHUP,
                     .revents = 0};
    if (poll(&socket, 1, 0) == 0) return self->WatchForEnd();
    self->answer_.reset();
    self->Shut();
  });
}

// A socket that is closed while bytes of the client are unread would make the
// client lose the answer.
void Connection::Linger() {
  if (stream_.has_tls() && !lingers_) {
    stream_.expires_after(ToChrono(kLingerTime));
    return stream_.async_shutdown(
        [self = shared_from_this()](Error) { self->Shut(); });
  }
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (!lingers_) return Shut();
  shared_->table.SetIdle(this, absl::Now());
  stream_.expires_after(ToChrono(kLingerTime));
  Discard();
}

void Connection::Discard() {
  constexpr size_t kPiece = 64 << 10;
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kPiece),
                          [self = shared_from_this()](Error error, size_t) {
                            if (error) return self->Shut();
                            self->Discard();
                          });
}

void Connection::Shut() {
  ++exchange_;
  all_sent_ = true;
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  shared_->table.Remove(this);
}

}  // namespace espalier::http
