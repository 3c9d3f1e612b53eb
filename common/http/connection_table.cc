#include "common/http/connection_table.h"

#include <algorithm>

namespace espalier::http {

bool ConnectionTable::Add(const std::shared_ptr<Closable>& connection,
                          absl::Time now) {
  std::shared_ptr<Closable> gives_way;
  {
    MutexLock lock(&mutex_);
    if (entries_.size() >= limits_.max_connections) {
      gives_way = LongestIdle();
      if (gives_way == nullptr) return false;
      entries_.erase(gives_way.get());
    }
    entries_[connection.get()] = {connection, now};
  }
  if (gives_way != nullptr) gives_way->CloseIfIdle();
  return true;
}

// Few connections come when all places are taken, so a search is good enough.
std::shared_ptr<Closable> ConnectionTable::LongestIdle() {
  std::shared_ptr<Closable> longest;
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [unused, entry] : entries_) {
    if (entry.idle_since >= since) continue;
    std::shared_ptr<Closable> connection = entry.connection.lock();
    if (connection == nullptr) continue;  // is being destroyed
    longest = std::move(connection);
    since = entry.idle_since;
  }
  return longest;
}

void ConnectionTable::Remove(Closable* connection) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return;
  if (found->second.idle_since == absl::InfiniteFuture()) --num_busy_;
  entries_.erase(found);
}

void ConnectionTable::SetBusy(Closable* connection) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return;
  if (found->second.idle_since == absl::InfiniteFuture()) return;
  found->second.idle_since = absl::InfiniteFuture();
  ++num_busy_;
}

void ConnectionTable::SetIdle(Closable* connection, absl::Time now) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return;
  if (found->second.idle_since == absl::InfiniteFuture()) --num_busy_;
  found->second.idle_since = now;
}

ConnectionTable::Connections ConnectionTable::All() const {
  MutexLock lock(&mutex_);
  Connections all;
  for (const auto& [unused, entry] : entries_) {
    if (auto connection = entry.connection.lock()) all.push_back(connection);
  }
  return all;
}

void ConnectionTable::Drain() {
  draining_ = true;
  for (const auto& connection : All()) connection->CloseIfIdle();
}

void ConnectionTable::AwaitIdle(absl::Time deadline) const {
  MutexLock lock(&mutex_);
  mutex_.AwaitUntil(
      [this] {
        mutex_.AssertHeld();
        return num_busy_ == 0;
      },
      deadline);
}

size_t ConnectionTable::size() const {
  MutexLock lock(&mutex_);
  return entries_.size();
}

bool ConnectionTable::ReserveBody(size_t bytes) {
  if (body_bytes_.fetch_add(bytes) + bytes <= limits_.all_body_bytes) {
    return true;
  }
  body_bytes_ -= bytes;
  return false;
}

}  // namespace espalier::http
