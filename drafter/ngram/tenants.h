#ifndef ESPALIER_DRAFTER_NGRAM_TENANTS_H_
#define ESPALIER_DRAFTER_NGRAM_TENANTS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace espalier::drafter {

// Holds what a drafter keeps across the requests of a tenant, by cache salt.
// Tenants share nothing: each has a State of its own, which it alone fills. If
// there are too many, the one that was used least recently loses its State as a
// whole, so what a tenant can observe depends on how many others are there, and
// not on their texts. One thread.
template <typename State>
class Tenants {
 public:
  using Make = std::function<std::unique_ptr<State>()>;

  // most: >= 1.
  Tenants(int64_t most, Make make) : most_(most), make_(std::move(make)) {}

  // Returns the tenant's State, which is made if there is none. Valid until the
  // next Get.
  State& Get(absl::string_view salt) {
    const auto found = by_salt_.find(salt);
    if (found != by_salt_.end()) {
      tenants_.splice(tenants_.end(), tenants_, found->second);
      return *found->second->state;
    }
    if (static_cast<int64_t>(tenants_.size()) == most_) {
      by_salt_.erase(tenants_.front().salt);
      tenants_.pop_front();
    }
    tenants_.push_back({std::string(salt), make_()});
    by_salt_.emplace(std::string(salt), std::prev(tenants_.end()));
    return *tenants_.back().state;
  }

  // Calls see(salt, state) for each, the least recently used first.
  template <typename See>
  void ForEach(See see) const {
    for (const Tenant& tenant : tenants_) {
      see(tenant.salt, static_cast<const State&>(*tenant.state));
    }
  }
  int64_t size() const { return static_cast<int64_t>(tenants_.size()); }

 private:
  struct Tenant {
    std::string salt;
    std::unique_ptr<State> state;
  };
  const int64_t most_;
  const Make make_;
  std::list<Tenant> tenants_;  // least recently used first
  absl::flat_hash_map<std::string, typename std::list<Tenant>::iterator>
      by_salt_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_TENANTS_H_
