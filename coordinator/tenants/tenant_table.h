#ifndef ESPALIER_COORDINATOR_TENANTS_TENANT_TABLE_H_
#define ESPALIER_COORDINATOR_TENANTS_TENANT_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/obs/metrics.h"
#include "coordinator/tenants/quota.h"

namespace espalier::coordinator {

// How a tenant shares.
struct TenantTerms {
  std::string name;
  double weight = 1;  // above 0
  std::optional<double> requests_per_minute = {};
  std::optional<double> tokens_per_minute = {};
};

// The tenants with their terms, what they have used, and their metrics. Bounded
// by the list: all names that are not in it are one tenant "other".
// Thread-safe.
class TenantTable {
 public:
  static constexpr size_t kMaxTenants = 256;
  static constexpr char kOther[] = "other";

  // One tenant, "other", without quotas and metrics. `metrics` must outlive it.
  explicit TenantTable(prometheus::Registry* metrics);

  // Replaces the terms. Tenants that stay keep what they have used, and those
  // that leave their live outputs. REQUIRES: names differ, at most kMaxTenants.
  void Set(const std::vector<TenantTerms>& list);

  // Returns the name if it is in the list, else "other".
  std::string NameOf(const std::string& name) const;
  // Returns true if the list has the name.
  bool Lists(const std::string& name) const;
  // Returns true if there is a list.
  bool is_divided() const;

  // A tenant that left the list has the weight of "other".
  double WeightOf(const std::string& tenant) const;
  // Returns the part of `places` in the queue that a tenant may fill, by
  // weight; at least 1 if there is any.
  int64_t PlacesOf(const std::string& tenant, int64_t places) const;

  // Counts a request, unless a quota is used up. RESOURCE_EXHAUSTED
  // ("QUOTA_EXCEEDED") names it, with the time to wait.
  absl::Status TakeRequest(const std::string& tenant, absl::Time now);
  // A request was refused, since the tenant's part of the queue is full.
  void CountFull(const std::string& tenant);

  struct TokensUsed {
    int64_t prompt = 0;
    int64_t answer = 0;
  };
  // Counts tokens of a request, against the tenant's quota as well.
  void Use(const std::string& tenant, const TokensUsed& used, absl::Time now);

  // Outputs of a tenant.
  struct Load {
    int64_t waiting = 0;
    int64_t running = 0;
  };
  void AddLoad(const std::string& tenant, const Load& change);
  int64_t WaitingOf(const std::string& tenant) const;

 private:
  struct Metrics {
    prometheus::Counter& admitted;
    prometheus::Counter& over_quota;
    prometheus::Counter& queue_full;
    prometheus::Counter& prompt_tokens;
    prometheus::Counter& answer_tokens;
    prometheus::Gauge& waiting;
    prometheus::Gauge& running;
  };
  struct Tenant {
    bool listed = true;  // or it has left the list, with outputs that live
    double weight = 1;
    Quota requests = Quota();
    Quota tokens = Quota();
    Load load = {};
    std::shared_ptr<const Metrics> metrics = nullptr;  // null: no list yet
  };
  static Metrics MetricsOf(prometheus::Registry& registry,
                           const std::string& tenant);
  const Tenant& Find(const std::string& tenant) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Tenant& Find(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  prometheus::Registry* const registry_;
  mutable Mutex mutex_;
  std::map<std::string, Tenant> tenants_
      ABSL_GUARDED_BY(mutex_);  // "other" too
  double all_weights_ ABSL_GUARDED_BY(mutex_) = 1;
  bool is_divided_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TENANTS_TENANT_TABLE_H_
