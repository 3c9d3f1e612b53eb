#include "common/http/client.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace espalier::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Error = beast::error_code;
using Parser = beast::http::response_parser<beast::http::string_body>;

}  // namespace

class Client::Connection {
 public:
  Connection(std::string host, std::string port)
      : host_(std::move(host)), port_(std::move(port)), stream_(io_) {}

  absl::StatusOr<int> Post(absl::string_view path, absl::string_view json,
                           const Options& options, OnPart on_part) {
    // A stop may come from any thread. It ends the operation that runs, or the
    // next one.
    std::stop_callback on_stop(options.interrupt, [this] {
      asio::post(io_, [this] { stream_.cancel(); });
    });
    stream_.expires_after(absl::ToChronoNanoseconds(options.timeout));
    const bool was_open = is_open_;
    absl::Status sent = Send(path, json);
    // The server may have closed a connection that nobody used.
    if (absl::IsUnavailable(sent) && was_open) sent = Send(path, json);
    absl::StatusOr<int> status = sent.ok() ? Read(on_part) : sent;
    if (options.interrupt.stop_requested()) {
      status = absl::CancelledError("interrupted");
    }
    if (!status.ok()) Close();
    return status;
  }

 private:
  using Start = std::function<void(std::function<void(Error)> done)>;

  // Runs one operation to its end, or to the deadline.
  absl::Status Await(const char* what, const Start& start) {
    Error end;
    start([&end](Error error) { end = error; });
    io_.restart();
    io_.run();
    if (!end) return absl::OkStatus();
    const std::string message =
        absl::StrCat(what, " ", host_, ":", port_, ": ", end.message());
    return end == beast::error::timeout ? absl::DeadlineExceededError(message)
                                        : absl::UnavailableError(message);
  }

  absl::Status Open() {
    asio::ip::tcp::resolver resolver(io_);
    Error error;
    const auto found = resolver.resolve(host_, port_, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("find ", host_, ": ", error.message()));
    }
    RETURN_IF_ERROR(Await("connect to", [&](auto done) {
      stream_.async_connect(found,
                            [done](Error end, const auto&) { done(end); });
    }));
    stream_.socket().set_option(asio::ip::tcp::no_delay(true));
    is_open_ = true;
    return absl::OkStatus();
  }

  void Close() {
    Error ignored;
    stream_.socket().close(ignored);
    buffer_.clear();
    is_open_ = false;
  }

  absl::Status Send(absl::string_view path, absl::string_view json) {
    if (!is_open_) RETURN_IF_ERROR(Open());
    const std::string request = absl::StrCat(
        "POST ", path, " HTTP/1.1\r\nHost: ", host_, ":", port_,
        "\r\nContent-Type: application/json\r\nContent-Length: ", json.size(),
        "\r\n\r\n", json);
    absl::Status sent = Await("write to", [&](auto done) {
      asio::async_write(stream_, asio::buffer(request),
                        [done](Error end, size_t) { done(end); });
    });
    if (!sent.ok()) Close();
    return sent;
  }

  absl::StatusOr<int> Read(OnPart on_part) {
    Parser parser;
    parser.eager(true);
    parser.body_limit(boost::none);
    while (!parser.is_done()) {
      RETURN_IF_ERROR(Await("read from", [&](auto done) {
        beast::http::async_read_some(stream_, buffer_, parser,
                                     [done](Error end, size_t) { done(end); });
      }));
      std::string& body = parser.get().body();
      if (!body.empty()) on_part(std::exchange(body, ""));
    }
    if (!parser.get().keep_alive()) Close();
    return parser.get().result_int();
  }

  const std::string host_;
  const std::string port_;
  asio::io_context io_{1};
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  bool is_open_ = false;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Create(absl::string_view url) {
  absl::string_view rest = url;
  if (absl::ConsumePrefix(&rest, "http://")) {
    const std::vector<std::string> parts =
        absl::StrSplit(rest.substr(0, rest.find('/')), absl::MaxSplits(':', 1));
    if (parts.size() == 2 && !parts[0].empty() && !parts[1].empty()) {
      return std::unique_ptr<Client>(
          new Client(std::make_unique<Connection>(parts[0], parts[1])));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", url, "\" is not http://HOST:PORT"));
}

Client::Client(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

Client::~Client() = default;

absl::StatusOr<int> Client::Post(absl::string_view path, absl::string_view json,
                                 const Options& options, OnPart on_part) {
  return connection_->Post(path, json, options, on_part);
}

}  // namespace espalier::http
