// Includes Boost.Beast: for common/http's own .cc files.
#ifndef ESPALIER_COMMON_HTTP_STREAM_H_
#define ESPALIER_COMMON_HTTP_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace espalier::http {

// A socket with times after which its operations fail, with or without TLS.
// An AsyncReadStream and AsyncWriteStream of Asio. Not thread-safe.
class Stream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using Error = boost::beast::error_code;
  // Every handler becomes this, so that Asio's operations on the sockets are
  // compiled once.
  using Done = absl::AnyInvocable<void(Error, size_t)>;

  // `context`: of the server's side of TLS; null: none.
  Stream(boost::asio::ip::tcp::socket socket,
         std::shared_ptr<boost::asio::ssl::context> context)
      : tcp_(std::move(socket)), context_(std::move(context)) {
    if (context_ != nullptr) tls_.emplace(tcp_, *context_);
  }

  executor_type get_executor() { return tcp_.get_executor(); }
  boost::asio::ip::tcp::socket& socket() { return tcp_.socket(); }
  bool has_tls() const { return tls_.has_value(); }

  void expires_after(std::chrono::nanoseconds time) {
    tcp_.expires_after(time);
  }
  void expires_never() { tcp_.expires_never(); }
  void close() { tcp_.close(); }

  void async_read_some(boost::asio::mutable_buffer buffer, Done done) {
    if (tls_) {
      tls_->async_read_some(buffer, std::move(done));
    } else {
      tcp_.async_read_some(buffer, std::move(done));
    }
  }
  // Writes of the first buffer alone.
  template <typename Buffers>
  void async_write_some(const Buffers& buffers, Done done) {
    const boost::asio::const_buffer first =
        *boost::asio::buffer_sequence_begin(buffers);
    if (tls_) {
      tls_->async_write_some(first, std::move(done));
    } else {
      tcp_.async_write_some(first, std::move(done));
    }
  }

  // REQUIRES of both: has_tls.
  template <typename Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server,
                          std::forward<Handler>(handler));
  }
  // Says farewell, and waits for the client's.
  template <typename Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_STREAM_H_
