#include "coordinator/rounds/round_journal.h"

#include <utility>

namespace espalier::coordinator {

void RoundJournal::Begin(uint64_t key, JournalRequest request) {
  MutexLock lock(&mutex_);
  entries_.push_back({key, std::move(request)});
  if (entries_.size() > kMaxRequests) entries_.pop_front();
}

void RoundJournal::Add(uint64_t key, JournalRound round) {
  MutexLock lock(&mutex_);
  JournalRequest* const request = Get(key);
  if (request == nullptr) return;
  ++request->num_rounds;
  request->num_tokens += static_cast<int64_t>(round.tokens.size());
  request->rounds.push_back(std::move(round));
  if (request->rounds.size() > kMaxRounds) request->rounds.pop_front();
}

void RoundJournal::End(uint64_t key) {
  MutexLock lock(&mutex_);
  if (JournalRequest* const request = Get(key)) request->live = false;
}

std::vector<JournalRequest> RoundJournal::Requests() const {
  MutexLock lock(&mutex_);
  std::vector<JournalRequest> requests;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const JournalRequest& request = entry->request;
    requests.push_back({.id = request.id,
                        .strategy = request.strategy,
                        .drafters = request.drafters,
                        .live = request.live,
                        .num_rounds = request.num_rounds,
                        .num_tokens = request.num_tokens});
  }
  return requests;
}

std::optional<JournalRequest> RoundJournal::Find(const std::string& id) const {
  MutexLock lock(&mutex_);
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (id.empty() || entry->request.id == id) return entry->request;
  }
  return std::nullopt;
}

std::optional<JournalRequest> RoundJournal::FindOwn(
    const std::string& request_id) const {
  MutexLock lock(&mutex_);
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->request.request_id == request_id) return entry->request;
  }
  return std::nullopt;
}

JournalRequest* RoundJournal::Get(uint64_t key) {
  for (Entry& entry : entries_) {
    if (entry.key == key) return &entry.request;
  }
  return nullptr;
}

}  // namespace espalier::coordinator
