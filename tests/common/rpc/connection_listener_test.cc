#include "common/rpc/connection_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/obs/metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

// Descriptors that a listener leaves free.
constexpr int kReserved = 64;

// Sets the limit of open descriptors for a while.
class DescriptorLimitOf {
 public:
  explicit DescriptorLimitOf(rlim_t limit) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = limit;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~DescriptorLimitOf() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
};

// The connections of a listener, in the order of their arrival.
class Accepted {
 public:
  void Add(int descriptor) {
    MutexLock lock(&mutex_);
    descriptors_.push_back(descriptor);
  }
  // Waits for as many; the last of them.
  int AwaitNumber(size_t number) {
    auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return descriptors_.size() >= number;
    };
    MutexLock lock(&mutex_);
    if (!mutex_.AwaitUntil(reached, Generous())) return -1;
    return descriptors_[number - 1];
  }

 private:
  Mutex mutex_;
  std::vector<int> descriptors_ ABSL_GUARDED_BY(mutex_);
};

// Returns a client whose descriptor is far above those that a listener takes.
// It sends one byte, its number.
int Connect(int port, uint8_t number) {
  constexpr int kFarAbove = 512;
  const int low = socket(AF_INET, SOCK_STREAM, 0);
  const int fd = fcntl(low, F_DUPFD_CLOEXEC, kFarAbove);
  close(low);
  sockaddr_in name = {.sin_family = AF_INET};
  name.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &name.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  EXPECT_EQ(send(fd, &number, 1, 0), 1);
  return fd;
}

uint8_t ByteFrom(int descriptor) {
  pollfd polled = {.fd = descriptor, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, -1), 1);
  uint8_t byte = 0;
  EXPECT_EQ(recv(descriptor, &byte, 1, 0), 1);
  return byte;
}

TEST(ConnectionListenerTest, MoreThanItMayHoldWaitAndNoneIsLost) {
  constexpr int kEnd = 96;  // its connections have smaller descriptors
  prometheus::Registry registry;
  prometheus::Counter& delayed =
      AddCounter(registry, {.name = "delayed", .help = "h"});
  auto address = ListenAddress::Parse("127.0.0.1:0");
  ASSERT_TRUE(address.ok()) << address.status();
  std::unique_ptr<ConnectionListener> listener;
  {
    const DescriptorLimitOf limit(kEnd + kReserved);
    auto opened = ConnectionListener::Open({*address}, delayed);
    ASSERT_TRUE(opened.ok()) << opened.status();
    listener = *std::move(opened);
  }
  size_t num_free = 0;
  for (int fd = 0; fd < kEnd; ++fd) num_free += fcntl(fd, F_GETFD) < 0;
  ASSERT_GT(num_free, 10u);
  const size_t num_clients = num_free + 20;
  std::vector<int> clients;
  for (size_t i = 0; i < num_clients; ++i) {
    clients.push_back(
        Connect(listener->addresses()[0].port, static_cast<uint8_t>(i)));
  }

  Accepted accepted;
  listener->Start([&accepted](int fd) { accepted.Add(fd); });
  ASSERT_GE(accepted.AwaitNumber(num_free), 0);
  const absl::Time give_up = Generous();
  while (delayed.Value() == 0) {
    ASSERT_LT(absl::Now(), give_up) << "nobody waits";
    std::this_thread::yield();
  }
  std::set<uint8_t> served;
  for (size_t i = 1; i <= num_clients; ++i) {
    const int fd = accepted.AwaitNumber(i);
    ASSERT_GE(fd, 0) << "lost after " << i - 1;
    EXPECT_LT(fd, kEnd);
    served.insert(ByteFrom(fd));
    close(fd);  // makes room for another
  }
  EXPECT_EQ(served.size(), num_clients);
  listener.reset();
  for (int fd : clients) close(fd);
}

}  // namespace
}  // namespace espalier
