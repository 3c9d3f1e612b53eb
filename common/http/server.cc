#include "common/http/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/http/connection.h"
#include "common/obs/log.h"

namespace espalier::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

// While the process has no more descriptors, connections wait in the system's
// queue.
constexpr std::chrono::milliseconds kAcceptPause(20);

absl::StatusOr<tcp> ProtocolOf(int socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return absl::ErrnoToStatus(errno, "a listening socket");
  }
  return name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

class BeastServer final : public Server {
 public:
  explicit BeastServer(Options options)
      : shared_(std::make_shared<Connection::Shared>(options, &io_)) {}
  ~BeastServer() override;

  absl::Status Listen(const std::vector<int>& sockets);
  void Run(int num_threads);

  void Drain(absl::Time deadline) override;
  size_t num_connections() const override { return shared_->table.size(); }

 private:
  struct Listener {
    explicit Listener(asio::io_context& io)
        : acceptor(asio::make_strand(io)), pause(acceptor.get_executor()) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
  };
  void Accept(Listener& listener);
  void OnAccept(Listener& listener, const Error& error, tcp::socket socket);
  void Work();
  void CloseListeners();

  const std::shared_ptr<Connection::Shared> shared_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::thread> threads_;
};

absl::Status BeastServer::Listen(const std::vector<int>& sockets) {
  absl::Status status;
  for (const int socket : sockets) {
    auto listener = std::make_unique<Listener>(io_);
    const absl::StatusOr<tcp> protocol = ProtocolOf(socket);
    Error error;
    if (protocol.ok()) listener->acceptor.assign(*protocol, socket, error);
    if (!protocol.ok() || error) {
      close(socket);
      status = protocol.ok() ? absl::InternalError(error.message())
                             : protocol.status();
      continue;
    }
    listeners_.push_back(std::move(listener));
  }
  return status;
}

void BeastServer::Run(int num_threads) {
  for (const auto& listener : listeners_) Accept(*listener);
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

// Connections catch what handlers throw; the rest is lack of memory.
void BeastServer::Work() {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      LogError(absl::StrCat("HTTP: ", error.what()));
    }
  }
}

void BeastServer::Accept(Listener& listener) {
  listener.acceptor.async_accept(
      asio::make_strand(io_),
      [this, &listener](const Error& error, tcp::socket socket) {
        OnAccept(listener, error, std::move(socket));
      });
}

void BeastServer::OnAccept(Listener& listener, const Error& error,
                           tcp::socket socket) {
  if (error == asio::error::operation_aborted || !listener.acceptor.is_open()) {
    return;
  }
  if (error) {
    listener.pause.expires_after(kAcceptPause);
    listener.pause.async_wait([this, &listener](const Error& stopped) {
      if (!stopped && listener.acceptor.is_open()) Accept(listener);
    });
    return;
  }
  Error ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(std::move(socket), shared_);
  } catch (const std::exception& what) {
    LogError(absl::StrCat("HTTP: ", what.what()));
    return Accept(listener);
  }
  if (shared_->table.Add(connection, absl::Now())) {
    connection->Start();
  } else {
    connection->Refuse();
  }
  Accept(listener);
}

void BeastServer::CloseListeners() {
  for (const auto& listener : listeners_) {
    asio::post(listener->acceptor.get_executor(), [each = listener.get()] {
      Error ignored;
      each->acceptor.close(ignored);
      each->pause.cancel();
    });
  }
}

void BeastServer::Drain(absl::Time deadline) {
  CloseListeners();
  shared_->table.Drain();
  shared_->table.AwaitIdle(deadline);
}

// What still waits in strands is destroyed with io_, on this thread.
BeastServer::~BeastServer() {
  shared_->gate.Close();
  work_.reset();
  io_.stop();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options) {
  const std::vector<int> sockets = std::move(options.sockets);
  const int num_threads = options.num_threads;
  auto server = std::make_unique<BeastServer>(std::move(options));
  RETURN_IF_ERROR(server->Listen(sockets));
  server->Run(num_threads);
  return server;
}

}  // namespace espalier::http
