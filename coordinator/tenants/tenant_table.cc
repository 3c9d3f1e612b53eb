#include "coordinator/tenants/tenant_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

absl::Status OverQuota(absl::string_view what, absl::Duration wait) {
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(absl::StrCat(
                     "the tenant's ", what, " a minute are used up")),
                 "QUOTA_EXCEEDED"),
      wait);
}

}  // namespace

TenantTable::TenantTable(prometheus::Registry* metrics) : registry_(metrics) {
  tenants_[kOther];
}

void TenantTable::Set(const std::vector<TenantTerms>& list) {
  MutexLock lock(&mutex_);
  std::map<std::string, Tenant> tenants;
  const auto add = [&](const TenantTerms& terms) {
    mutex_.AssertHeld();
    const auto known = tenants_.find(terms.name);
    Tenant tenant = known == tenants_.end() ? Tenant() : known->second;
    tenant.listed = true;
    tenant.weight = terms.weight;
    tenant.requests.SetLimit(terms.requests_per_minute);
    tenant.tokens.SetLimit(terms.tokens_per_minute);
    if (!tenant.metrics) {
      tenant.metrics =
          std::make_shared<Metrics>(MetricsOf(*registry_, terms.name));
    }
    tenants.insert_or_assign(terms.name, std::move(tenant));
  };
  add({.name = kOther});
  for (const TenantTerms& terms : list) add(terms);
  all_weights_ = 0;
  for (const auto& [name, tenant] : tenants) all_weights_ += tenant.weight;
  is_divided_ = tenants.size() > 1;
  for (const auto& [name, left] : tenants_) {
    if (left.load.waiting + left.load.running == 0) continue;
    const auto [entry, has_left] = tenants.insert({name, left});
    if (!has_left) continue;
    entry->second.listed = false;
    entry->second.weight = tenants.at(kOther).weight;
  }
  tenants_ = std::move(tenants);
}

TenantTable::Metrics TenantTable::MetricsOf(prometheus::Registry& registry,
                                            const std::string& tenant) {
  const auto requests = [&](const char* outcome) -> prometheus::Counter& {
    return AddCounter(
        registry,
        {.name = "espalier_tenant_requests_total",
         .help = "Requests by tenant: admitted, or refused for a quota or "
                 "since the tenant's part of the queue was full.",
         .labels = {{"tenant", tenant}, {"outcome", outcome}}});
  };
  const auto tokens = [&](const char* kind) -> prometheus::Counter& {
    return AddCounter(registry,
                      {.name = "espalier_tenant_tokens_total",
                       .help = "Tokens of prompts and answers by tenant.",
                       .labels = {{"tenant", tenant}, {"kind", kind}}});
  };
  const auto load = [&](const char* state) -> prometheus::Gauge& {
    return AddGauge(registry,
                    {.name = "espalier_tenant_outputs",
                     .help = "Outputs that wait or run, by tenant.",
                     .labels = {{"tenant", tenant}, {"state", state}}});
  };
  return {.admitted = requests("admitted"),
          .over_quota = requests("over_quota"),
          .queue_full = requests("queue_full"),
          .prompt_tokens = tokens("prompt"),
          .answer_tokens = tokens("answer"),
          .waiting = load("waiting"),
          .running = load("running")};
}

const TenantTable::Tenant& TenantTable::Find(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? tenants_.at(kOther) : found->second;
}

TenantTable::Tenant& TenantTable::Find(const std::string& tenant) {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? tenants_.at(kOther) : found->second;
}

std::string TenantTable::NameOf(const std::string& name) const {
  return Lists(name) ? name : kOther;
}

bool TenantTable::Lists(const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto found = tenants_.find(name);
  return found != tenants_.end() && found->second.listed;
}

bool TenantTable::is_divided() const {
  MutexLock lock(&mutex_);
  return is_divided_;
}

double TenantTable::WeightOf(const std::string& tenant) const {
  MutexLock lock(&mutex_);
  return Find(tenant).weight;
}

int64_t TenantTable::PlacesOf(const std::string& tenant, int64_t places) const {
  MutexLock lock(&mutex_);
  const double share = Find(tenant).weight / all_weights_;
  return std::clamp<int64_t>(
      static_cast<int64_t>(static_cast<double>(places) * share), 1,
      std::max<int64_t>(places, 1));
}

absl::Status TenantTable::TakeRequest(const std::string& name, absl::Time now) {
  MutexLock lock(&mutex_);
  Tenant& tenant = Find(name);
  const absl::Duration requests = tenant.requests.WaitFor(1, now);
  const absl::Duration tokens = tenant.tokens.WaitFor(1, now);
  const absl::Duration wait = std::max(requests, tokens);
  if (wait > absl::ZeroDuration()) {
    if (tenant.metrics) tenant.metrics->over_quota.Increment();
    return OverQuota(requests >= tokens ? "requests" : "tokens", wait);
  }
  tenant.requests.Use(1, now);
  if (tenant.metrics) tenant.metrics->admitted.Increment();
  return absl::OkStatus();
}

void TenantTable::CountFull(const std::string& tenant) {
  MutexLock lock(&mutex_);
  const auto& metrics = Find(tenant).metrics;
  if (metrics) metrics->queue_full.Increment();
}

void TenantTable::Use(const std::string& tenant, const TokensUsed& used,
                      absl::Time now) {
  MutexLock lock(&mutex_);
  Tenant& found = Find(tenant);
  found.tokens.Use(static_cast<double>(used.prompt + used.answer), now);
  if (found.metrics) {
    found.metrics->prompt_tokens.Increment(static_cast<double>(used.prompt));
    found.metrics->answer_tokens.Increment(static_cast<double>(used.answer));
  }
}

void TenantTable::AddLoad(const std::string& tenant, const Load& change) {
  MutexLock lock(&mutex_);
  Tenant& found = Find(tenant);
  found.load.waiting += change.waiting;
  found.load.running += change.running;
  if (!found.metrics) return;
  found.metrics->waiting.Set(static_cast<double>(found.load.waiting));
  found.metrics->running.Set(static_cast<double>(found.load.running));
}

int64_t TenantTable::WaitingOf(const std::string& tenant) const {
  MutexLock lock(&mutex_);
  return Find(tenant).load.waiting;
}

}  // namespace espalier::coordinator
