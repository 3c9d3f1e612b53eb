#include "common/rpc/socket_tap.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace espalier {
namespace {

// Tells a socket from a later one with the same descriptor.
struct SocketIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  static SocketIdentity Of(int descriptor) {
    struct stat about = {};
    if (fstat(descriptor, &about) != 0) return {};
    return {about.st_dev, about.st_ino};
  }
  bool operator==(const SocketIdentity&) const = default;
};

struct Slot {
  std::atomic<bool> used = false;  // read without the lock
  Mutex mutex;
  SocketIdentity identity ABSL_GUARDED_BY(mutex);
  std::shared_ptr<SocketObserver> observer ABSL_GUARDED_BY(mutex);
};

// Descriptors belong to the process, and so does this table of them. It is
// never destroyed: other threads may read from sockets until the very end.
constexpr int kSlotsPerBlock = 1 << 8;
std::atomic<Slot*> blocks[(kMaxTapped + 1) / kSlotsPerBlock];

Slot* FindSlot(int descriptor) {
  if (descriptor < 0 || descriptor > kMaxTapped) return nullptr;
  Slot* const block = blocks[descriptor / kSlotsPerBlock].load();
  return block == nullptr ? nullptr : &block[descriptor % kSlotsPerBlock];
}

Slot& MakeSlot(int descriptor) {
  std::atomic<Slot*>& block = blocks[descriptor / kSlotsPerBlock];
  if (block.load() == nullptr) {
    Slot* expected = nullptr;
    Slot* const fresh = new Slot[kSlotsPerBlock];
    if (!block.compare_exchange_strong(expected, fresh)) delete[] fresh;
  }
  return *FindSlot(descriptor);
}

void Forget(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(slot.mutex) {
  slot.observer = nullptr;
  slot.used = false;
}

std::shared_ptr<SocketObserver> ObserverOf(int descriptor) {
  Slot* const slot = FindSlot(descriptor);
  if (slot == nullptr || !slot->used) return nullptr;
  MutexLock lock(&slot->mutex);
  if (slot->observer == nullptr) return nullptr;
  if (slot->identity != SocketIdentity::Of(descriptor)) Forget(*slot);
  return slot->observer;
}

// Shows the first `size` bytes of a message. False: the connection was closed.
bool Show(int descriptor, const msghdr& message, size_t size,
          bool (SocketObserver::*show)(absl::string_view)) {
  const std::shared_ptr<SocketObserver> observer = ObserverOf(descriptor);
  if (observer == nullptr) return true;
  bool go_on = true;
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& piece = message.msg_iov[i];
    const size_t shown = std::min(size, piece.iov_len);
    size -= shown;
    go_on &= (*observer.*show)(
        absl::string_view(static_cast<const char*>(piece.iov_base), shown));
  }
  if (!go_on) shutdown(descriptor, SHUT_RDWR);
  return go_on;
}

}  // namespace

bool TapSocket(int descriptor, std::shared_ptr<SocketObserver> observer) {
  if (descriptor < 0 || descriptor > kMaxTapped) return false;
  Slot& slot = MakeSlot(descriptor);
  MutexLock lock(&slot.mutex);
  slot.identity = SocketIdentity::Of(descriptor);
  slot.observer = std::move(observer);
  slot.used = true;
  return true;
}

// If gRPC closes the descriptor between the check and the shutdown, and another
// socket gets its number, that connection ends, and is made again.
void CloseTapped(int descriptor, const SocketObserver& observer) {
  Slot* const slot = FindSlot(descriptor);
  if (slot == nullptr) return;
  MutexLock lock(&slot->mutex);
  if (slot->observer.get() == &observer &&
      slot->identity == SocketIdentity::Of(descriptor)) {
    shutdown(descriptor, SHUT_RDWR);
  }
}

bool ForgetClosed(int descriptor, const SocketObserver& observer) {
  Slot* const slot = FindSlot(descriptor);
  if (slot == nullptr) return true;
  MutexLock lock(&slot->mutex);
  if (slot->observer.get() != &observer) return true;
  if (slot->identity == SocketIdentity::Of(descriptor)) return false;
  Forget(*slot);
  return true;
}

void Untap(int descriptor, const SocketObserver& observer) {
  Slot* const slot = FindSlot(descriptor);
  if (slot == nullptr) return;
  MutexLock lock(&slot->mutex);
  if (slot->observer.get() == &observer) Forget(*slot);
}

}  // namespace espalier

// Replace the C library's for this program and the libraries that it loads.
extern "C" {

ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_recvmsg, descriptor, message, flags);
  const bool is_data = size > 0 && (flags & (MSG_PEEK | MSG_ERRQUEUE)) == 0;
  if (!is_data ||
      espalier::Show(descriptor, *message, static_cast<size_t>(size),
                     &espalier::SocketObserver::OnReceived)) {
    return size;
  }
  errno = ECONNRESET;
  return -1;
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_sendmsg, descriptor, message, flags);
  if (size > 0) {
    espalier::Show(descriptor, *message, static_cast<size_t>(size),
                   &espalier::SocketObserver::OnSent);
  }
  return size;
}

}  // extern "C"
