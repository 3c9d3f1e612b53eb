#ifndef ESPALIER_COORDINATOR_ROUNDS_ROUND_JOURNAL_H_
#define ESPALIER_COORDINATOR_ROUNDS_ROUND_JOURNAL_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/speculation/token_tree.h"

namespace espalier::coordinator {

// One verified round.
struct JournalRound {
  int64_t step = 0;             // of its request, from 1
  TokenTree tree;               // provenance: bits of the request's drafters
  std::vector<int32_t> path;    // accepted nodes, root excluded
  std::vector<TokenId> tokens;  // appended to the text
  int64_t max_nodes = 0;        // budget of the tree
  absl::Duration draft_wait;
  absl::Duration round_trip;  // to the verifier
};

struct JournalRequest {
  std::string
      id;  // for people; not its request_id, which lets who has it abort
  std::string strategy;
  std::string request_id = {};             // a secret of its client
  std::vector<std::string> drafters = {};  // as chosen by the request
  bool live = true;
  int64_t num_rounds = 0;
  int64_t num_tokens = 0;
  std::deque<JournalRound> rounds = {};  // the latest, oldest first
};

// The latest rounds of the latest requests, for the status page. Bounded: the
// oldest are dropped. Thread-safe: the executor writes, any thread reads.
class RoundJournal {
 public:
  static constexpr size_t kMaxRequests = 16;
  static constexpr size_t kMaxRounds = 64;  // of a request

  // `key` names the request in later calls; calls for a dropped one are
  // ignored.
  void Begin(uint64_t key, JournalRequest request);
  void Add(uint64_t key, JournalRound round);
  void End(uint64_t key);

  // All requests, newest first, without their rounds.
  std::vector<JournalRequest> Requests() const;
  // The request with its rounds. Empty id: the request that began last.
  std::optional<JournalRequest> Find(const std::string& id) const;
  // Finds a request by its request_id, and of its outputs the newest.
  std::optional<JournalRequest> FindOwn(const std::string& request_id) const;

 private:
  struct Entry {
    uint64_t key;
    JournalRequest request;
  };
  JournalRequest* Get(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_ROUND_JOURNAL_H_
