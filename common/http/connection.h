// Includes Boost.Beast: for common/http's own .cc files.
#ifndef ESPALIER_COMMON_HTTP_CONNECTION_H_
#define ESPALIER_COMMON_HTTP_CONNECTION_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/http/answer.h"
#include "common/http/connection_table.h"
#include "common/http/server.h"
#include "common/http/stream.h"
#include "common/http/tls_contexts.h"

namespace espalier::http {

// Lets other threads post to a server's, for as long as it lives. Thread-safe.
class Gate {
 public:
  explicit Gate(boost::asio::io_context* io) : io_(io) {}
  void Post(std::function<void()> task);
  // Later tasks are dropped.
  void Close();

 private:
  Mutex mutex_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mutex_);  // null: closed
};

// One connection: reads a request, sends its answer, and so on. Runs on the
// strand of its socket, and lives while an operation of it is pending.
class Connection final : public Closable,
                         public std::enable_shared_from_this<Connection> {
 public:
  // Holds what all connections of a server share.
  struct Shared {
    Shared(const Server::Options& options, boost::asio::io_context* io)
        : gate(io),
          handler(options.handler),
          tls(options.certificates),
          limits(options.limits),
          table({.max_connections = options.limits.max_connections,
                 .all_body_bytes = options.limits.all_body_bytes}) {}
    Gate gate;
    const Handler handler;
    TlsContexts tls;
    const Limits limits;
    ConnectionTable table;
  };

  Connection(boost::asio::ip::tcp::socket socket,
             std::shared_ptr<Shared> shared);
  ~Connection() override;

  // Serves requests until one of the sides ends the connection.
  void Start();
  // Says that there is no place for it.
  void Refuse();

  void CloseIfIdle() override;

 private:
  using Error = boost::beast::error_code;
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::string_body>;

  // TLS's, if there is TLS.
  void Handshake();
  void AwaitRequest();
  void ReadHeader();
  void OnHeader(Error error);
  void SendContinue();
  void AllowBodyTime();
  void ReadBody();
  void OnBody(Error error);
  void Dispatch();
  // Answers what is no request, and closes.
  void Reject(int status, const std::string& message);

  Wake NewWake();
  void OnWake(uint64_t exchange);
  // Sends what the answer has, unless something is being sent.
  void Pump();
  void AskAnswer();
  void SendHead(Answer::Head head);
  void SendPiece(const std::string& piece);
  // The head of a response, as it goes over the wire.
  std::string HeadText(const Answer::Head& head) const;
  // `piece` in the framing of the body; an empty one ends it.
  std::string Framed(const std::string& piece) const;
  void Send(std::string bytes);
  void OnSent(Error error);
  void EndExchange();
  void AllowTime(size_t bytes);

  // Notices that the client leaves while its request is in work.
  void WatchClient();
  void OnReadable(Error error);
  void WatchForEnd();
  // Ends the connection when the client has read what was sent.
  void Linger();
  void Discard();
  void Shut();

  const std::shared_ptr<Shared> shared_;
  Stream stream_;
  boost::asio::steady_timer pause_;  // of WatchForEnd
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  size_t reserved_body_ = 0;  // bytes of the table
  bool busy_ = false;         // from the header to the end of the answer

  std::unique_ptr<Answer> answer_;  // null: no request is in work
  uint64_t exchange_ = 0;           // number of the request
  bool keep_alive_ = false;
  bool is_head_ = false;     // the request's method is HEAD
  bool is_stream_ = false;   // pieces follow
  bool is_chunked_ = false;  // unless the client speaks HTTP/1.0
  bool sending_ = false;
  bool all_sent_ = false;  // with what is being sent
  bool watching_ = false;
  bool lingers_ =
      false;  // after the answer: the request was not read to its end

  std::string out_;  // what is being sent
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_CONNECTION_H_
