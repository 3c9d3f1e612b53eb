#include "common/rpc/tls_tap.h"

#include <dlfcn.h>
#include <openssl/ssl.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"

namespace espalier {
namespace {

// A record's header, a handshake message's header, and the protocol's version
// precede the random number.
constexpr size_t kRecordHeader = 5, kRandomBegin = 11, kRandomBytes = 32;
constexpr size_t kRandomEnd = kRandomBegin + kRandomBytes;
constexpr char kHandshake = 22, kClientHello = 1;

using Observer = std::shared_ptr<SocketObserver>;

// Connections that have begun and whose SSL objects have not been seen. Never
// destroyed, as other threads may read from sockets until the very end.
struct Begun {
  Mutex mutex;
  absl::flat_hash_map<std::string, Observer> observers ABSL_GUARDED_BY(mutex);
};
Begun& TheBegun() {
  static Begun& begun = *new Begun;
  return begun;
}

void Free(void*, void* observer, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Observer*>(observer);
}

int ObserverIndex() {
  static const int index =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, Free);
  return index;
}

// Returns the observer of a server's connection; null: it has none.
SocketObserver* ObserverOfServer(SSL* ssl) {
  if (SSL_is_server(ssl) == 0) return nullptr;
  void* known = SSL_get_ex_data(ssl, ObserverIndex());
  if (known == nullptr) {
    std::string random(kRandomBytes, '\0');
    SSL_get_client_random(ssl, reinterpret_cast<unsigned char*>(random.data()),
                          random.size());
    auto observer = std::make_unique<Observer>();
    Begun& begun = TheBegun();
    {
      MutexLock lock(&begun.mutex);
      const auto found = begun.observers.find(random);
      if (found != begun.observers.end()) {
        *observer = std::move(found->second);
        begun.observers.erase(found);
      }
    }
    known = observer.get();
    if (SSL_set_ex_data(ssl, ObserverIndex(), known) == 1) observer.release();
  }
  return static_cast<Observer*>(known)->get();
}

template <typename Function>
Function* OpenSsl(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

ClientRandom::State ClientRandom::Feed(absl::string_view bytes) {
  if (begin_.size() < kRandomEnd) {
    absl::StrAppend(&begin_, bytes.substr(0, kRandomEnd - begin_.size()));
  }
  return Check();
}

// Assumes that a client's first message is in one record: all known clients do
// so.
ClientRandom::State ClientRandom::Check() const {
  const auto byte = [this](size_t i) {
    return static_cast<unsigned char>(begin_[i]);
  };
  if (!begin_.empty() && begin_[0] != kHandshake) return State::kNotTls;
  if (begin_.size() > kRecordHeader &&
      (begin_[kRecordHeader] != kClientHello ||
       (byte(3) << 8 | byte(4)) + kRecordHeader < kRandomEnd)) {
    return State::kNotTls;
  }
  return begin_.size() < kRandomEnd ? State::kUnfinished : State::kFound;
}

std::string ClientRandom::value() const {
  return begin_.substr(kRandomBegin, kRandomBytes);
}

bool TapTls(const std::string& random, Observer observer) {
  Begun& begun = TheBegun();
  MutexLock lock(&begun.mutex);
  return begun.observers.try_emplace(random, std::move(observer)).second;
}

void UntapTls(const std::string& random) {
  Begun& begun = TheBegun();
  Observer forgotten;  // destroyed without the lock
  MutexLock lock(&begun.mutex);
  const auto found = begun.observers.find(random);
  if (found == begun.observers.end()) return;
  forgotten = std::move(found->second);
  begun.observers.erase(found);
}

}  // namespace espalier

// These two functions replace those of OpenSSL in this program and in the
// libraries that it loads.
extern "C" {

int SSL_read(SSL* ssl, void* buffer, int size) {
  static auto* const read = espalier::OpenSsl<decltype(SSL_read)>("SSL_read");
  const int result = read(ssl, buffer, size);
  if (result > 0) {
    if (auto* observer = espalier::ObserverOfServer(ssl)) {
      observer->OnReceived(
          {static_cast<const char*>(buffer), static_cast<size_t>(result)});
    }
  }
  return result;
}

int SSL_write(SSL* ssl, const void* buffer, int size) {
  static auto* const write =
      espalier::OpenSsl<decltype(SSL_write)>("SSL_write");
  const int result = write(ssl, buffer, size);
  if (result > 0) {
    if (auto* observer = espalier::ObserverOfServer(ssl)) {
      observer->OnSent(
          {static_cast<const char*>(buffer), static_cast<size_t>(result)});
    }
  }
  return result;
}

}  // extern "C"
