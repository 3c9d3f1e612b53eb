#include "common/rpc/connection_guard.h"

#include <malloc.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/obs/log.h"
#include "common/rpc/socket_tap.h"
#include "common/rpc/tls_tap.h"

namespace espalier {
namespace {

// Memory is given back at most this often.
constexpr absl::Duration kGiveBackPause = absl::Seconds(2);

}  // namespace

// One connection.
class ConnectionGuard::Watched final
    : public SocketObserver,
      public std::enable_shared_from_this<Watched> {
 public:
  Watched(std::shared_ptr<ConnectionGuard> guard, int descriptor, bool has_tls)
      : guard_(std::move(guard)),
        descriptor_(descriptor),
        has_tls_(has_tls),
        watch_(guard_->limits_.connection) {}
  ~Watched() override { guard_->unfinished_bytes_ -= unfinished_bytes_; }

  bool OnReceived(absl::string_view bytes) override {
    return has_tls_ ? FindHandshake(bytes) : Read(bytes);
  }
  bool OnSent(absl::string_view bytes) override {
    return has_tls_ || Wrote(bytes);
  }
  bool Read(absl::string_view bytes) {
    return Look([&](ConnectionWatch& watch) {
      return watch.Received(bytes, absl::Now());
    });
  }
  bool Wrote(absl::string_view bytes) {
    return Look(
        [&](ConnectionWatch& watch) { return watch.Sent(bytes, absl::Now()); });
  }
  bool CheckTime(absl::Time now) {
    return Look([&](ConnectionWatch& watch) { return watch.CheckTime(now); });
  }
  // Before the connection is forgotten.
  void Forget() {
    MutexLock lock(&mutex_);
    if (!random_.empty()) UntapTls(random_);
  }

  int64_t unfinished_bytes() const { return unfinished_bytes_; }

  // Its connection is about to be closed; its bytes no longer count.
  void Doom() {
    MutexLock lock(&mutex_);
    if (is_doomed_) return;
    is_doomed_ = true;
    guard_->unfinished_bytes_ -= unfinished_bytes_.exchange(0);
  }

 private:
  // What TLS carries. OpenSSL's calls cannot be made to fail.
  class Plain final : public SocketObserver {
   public:
    explicit Plain(std::shared_ptr<Watched> watched)
        : watched_(std::move(watched)) {}
    bool OnReceived(absl::string_view bytes) override {
      return watched_->Read(bytes) || Close();
    }
    bool OnSent(absl::string_view bytes) override {
      return watched_->Wrote(bytes) || Close();
    }

   private:
    bool Close() {
      CloseTapped(watched_->descriptor_, *watched_);
      return false;
    }
    const std::shared_ptr<Watched> watched_;
  };

  // Whether the bytes begin a handshake, or follow one's beginning.
  bool FindHandshake(absl::string_view bytes) {
    {
      MutexLock lock(&mutex_);
      if (!random_.empty()) return !is_doomed_;
      const ClientRandom::State state = hello_.Feed(bytes);
      if (state == ClientRandom::State::kUnfinished) return true;
      if (state == ClientRandom::State::kFound) {
        random_ = hello_.value();
        if (TapTls(random_, std::make_shared<Plain>(shared_from_this()))) {
          return true;
        }
        random_.clear();
      }
    }
    Doom();
    guard_->Report("not_tls");
    return false;
  }

  // Whether the connection may go on.
  template <typename Watching>
  bool Look(Watching watching) {
    absl::string_view blame;
    {
      MutexLock lock(&mutex_);
      if (is_doomed_) return false;
      blame = watching(watch_);
      const int64_t bytes = watch_.unfinished_bytes();
      guard_->unfinished_bytes_ += bytes - unfinished_bytes_.exchange(bytes);
    }
    if (blame.empty()) {
      guard_->KeepBudget();
      MutexLock lock(&mutex_);
      return !is_doomed_;
    }
    Doom();
    guard_->Report(blame);
    return false;
  }

  const std::shared_ptr<ConnectionGuard> guard_;
  const int descriptor_;
  const bool has_tls_;
  std::atomic<int64_t> unfinished_bytes_ = 0;  // written under mutex_
  Mutex mutex_;
  ClientRandom hello_ ABSL_GUARDED_BY(mutex_);
  std::string random_ ABSL_GUARDED_BY(mutex_);  // of TLS; empty: not yet
  ConnectionWatch watch_ ABSL_GUARDED_BY(mutex_);
  bool is_doomed_ ABSL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<ConnectionGuard> ConnectionGuard::New(
    const Limits& limits, std::shared_ptr<prometheus::Registry> registry) {
  return std::shared_ptr<ConnectionGuard>(
      new ConnectionGuard(limits, std::move(registry)));
}

ConnectionGuard::ConnectionGuard(const Limits& limits,
                                 std::shared_ptr<prometheus::Registry> registry)
    : limits_(limits),
      registry_(std::move(registry)),
      closed_(prometheus::BuildCounter()
                  .Name("espalier_connections_closed_total")
                  .Help("Connections that were closed because they abused the "
                        "server, by the limit that they passed.")
                  .Register(*registry_)) {}

bool ConnectionGuard::Watch(int descriptor, bool has_tls) {
  auto watched =
      std::make_shared<Watched>(shared_from_this(), descriptor, has_tls);
  if (!TapSocket(descriptor, watched)) return false;
  MutexLock lock(&mutex_);
  watched_[descriptor] = std::move(watched);
  return true;
}

void ConnectionGuard::Report(absl::string_view reason) {
  closed_.Add({{"reason", std::string(reason)}}).Increment();
  MutexLock lock(&mutex_);
  if (!log_.Take(absl::Now())) return;
  LogWarning(absl::StrCat("closed a connection: ", reason));
}

void ConnectionGuard::KeepBudget() {
  if (unfinished_bytes_ <= limits_.max_unfinished_bytes) return;
  std::shared_ptr<Watched> largest;
  int descriptor = -1;
  {
    MutexLock lock(&mutex_);
    for (const auto& [number, watched] : watched_) {
      if (largest == nullptr ||
          watched->unfinished_bytes() > largest->unfinished_bytes()) {
        largest = watched;
        descriptor = number;
      }
    }
  }
  if (largest == nullptr) return;
  largest->Doom();
  CloseTapped(descriptor, *largest);
  Report("unfinished_bytes");
}

void ConnectionGuard::Sweep(absl::Time now) {
  std::vector<std::pair<int, std::shared_ptr<Watched>>> all;
  {
    MutexLock lock(&mutex_);
    all.assign(watched_.begin(), watched_.end());
  }
  for (const auto& [descriptor, watched] : all) {
    if (ForgetClosed(descriptor, *watched)) {
      watched->Forget();
      MutexLock lock(&mutex_);
      const auto found = watched_.find(descriptor);
      if (found != watched_.end() && found->second == watched) {
        watched_.erase(found);
      }
    } else if (!watched->CheckTime(now)) {
      CloseTapped(descriptor, *watched);
    }
  }
  GiveMemoryBack(now);
}

// The call of malloc_trim takes some milliseconds and stops other threads'
// allocations for parts of that.
void ConnectionGuard::GiveMemoryBack(absl::Time now) {
  if (now < next_give_back_) return;
  next_give_back_ = now + kGiveBackPause;
  if (!freed_.IsWorthGivingBack(HeapUse::Now())) return;
  malloc_trim(0);
  freed_.GaveBack(HeapUse::Now());
}

void ConnectionGuard::Stop() {
  std::map<int, std::shared_ptr<Watched>> all;
  {
    MutexLock lock(&mutex_);
    all.swap(watched_);
  }
  for (const auto& [descriptor, watched] : all) {
    Untap(descriptor, *watched);
    watched->Forget();
  }
}

}  // namespace espalier
