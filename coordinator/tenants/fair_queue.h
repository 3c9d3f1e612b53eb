#ifndef ESPALIER_COORDINATOR_TENANTS_FAIR_QUEUE_H_
#define ESPALIER_COORDINATOR_TENANTS_FAIR_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace espalier::coordinator {

// Requests that wait, in a line for each tenant. The next one is of the tenant
// that has been charged the least, as in start-time fair queueing; a line that
// was empty gets no credit for the time in which it was empty. One line is a
// plain queue. Lives on the executor.
class FairQueue {
 public:
  // Where in its line: by time, and by ticket among equal times.
  using Place = std::pair<absl::Time, uint64_t>;

  void Add(const std::string& tenant, const Place& place);
  void Remove(const std::string& tenant, const Place& place);

  // Takes out the ticket that is next among those that are ready; nullopt:
  // there is none.
  std::optional<uint64_t> Take(
      absl::FunctionRef<bool(uint64_t ticket)> is_ready);

  // Adds to what a tenant has been charged: its use divided by its weight.
  // Below 0: a charge was too high.
  void Charge(const std::string& tenant, double use);

  int64_t size() const { return size_; }
  int64_t size(const std::string& tenant) const;

 private:
  struct Line {
    std::set<Place> waiting = {};
    double charged = 0;
  };

  std::map<std::string, Line> lines_;  // kept when they are empty
  double charged_ = 0;                 // the line that was taken from last
  int64_t size_ = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TENANTS_FAIR_QUEUE_H_
