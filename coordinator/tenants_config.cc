#include "coordinator/tenants_config.h"

#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/config/load_config.h"
#include "common/obs/log.h"
#include "common/speculation/messages.h"

namespace espalier::coordinator {
namespace {

struct TenantLimit {
  absl::string_view field;
  uint64_t most;
};

absl::StatusOr<std::optional<double>> Checked(bool is_set, uint64_t value,
                                              const TenantLimit& limit) {
  if (!is_set) return std::nullopt;
  if (value >= 1 && value <= limit.most) return static_cast<double>(value);
  return absl::InvalidArgumentError(
      absl::StrCat(limit.field, ": ", value, " is not in 1 .. ", limit.most));
}

absl::StatusOr<TenantTerms> TermsOf(const v1::TenantsConfig::Tenant& tenant) {
  if (tenant.name().empty() || tenant.name().size() > kMaxTenantBytes ||
      !IsPrintable(tenant.name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: empty, longer than ", kMaxTenantBytes,
                     " bytes, or with control characters"));
  }
  TenantTerms terms = {.name = tenant.name()};
  ASSIGN_OR_RETURN(
      const auto weight,
      Checked(tenant.has_weight(), tenant.weight(), {"weight", 1000}));
  terms.weight = weight.value_or(1);
  ASSIGN_OR_RETURN(
      terms.requests_per_minute,
      Checked(tenant.has_requests_per_minute(), tenant.requests_per_minute(),
              {"requests_per_minute", uint64_t{1} << 20}));
  ASSIGN_OR_RETURN(
      terms.tokens_per_minute,
      Checked(tenant.has_tokens_per_minute(), tenant.tokens_per_minute(),
              {"tokens_per_minute", uint64_t{1} << 40}));
  return terms;
}

}  // namespace

absl::StatusOr<std::vector<TenantTerms>> TenantsFromConfig(
    const v1::TenantsConfig& config) {
  if (config.tenants_size() > static_cast<int>(TenantTable::kMaxTenants)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenants: ", config.tenants_size(), ", limit ",
                     TenantTable::kMaxTenants));
  }
  std::vector<TenantTerms> list;
  std::set<std::string> names;
  for (int i = 0; i < config.tenants_size(); ++i) {
    absl::StatusOr<TenantTerms> terms = TermsOf(config.tenants(i));
    if (terms.ok() && !names.insert(terms->name).second) {
      terms = absl::InvalidArgumentError(
          absl::StrCat("name: \"", terms->name, "\" is named twice"));
    }
    if (!terms.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tenants.", i, ".", terms.status().message()));
    }
    list.push_back(*std::move(terms));
  }
  return list;
}

absl::StatusOr<std::vector<TenantTerms>> TenantsFile::ReadList() const {
  v1::TenantsConfig config;
  RETURN_IF_ERROR(LoadConfig(path_, /*overrides=*/{}, config));
  return WithPrefix(path_, TenantsFromConfig(config));
}

absl::StatusOr<Reload::Install> TenantsFile::ReadAgain() {
  if (path_.empty()) return [] {};
  const FileStamp stamp = FileStamp::Of(path_);
  ASSIGN_OR_RETURN(auto list, ReadList());
  return [this, stamp, list = std::move(list)] { Install(stamp, list); };
}

void TenantsFile::Install(const FileStamp& stamp,
                          const std::vector<TenantTerms>& list) {
  MutexLock lock(&mutex_);
  stamp_ = stamp;
  table_->Set(list);
  LogInfo(absl::StrCat("read ", list.size(), " tenants of ", path_));
}

absl::Status TenantsFile::Read() {
  ASSIGN_OR_RETURN(const auto install, ReadAgain());
  install();
  return absl::OkStatus();
}

void TenantsFile::Refresh() {
  const FileStamp stamp = FileStamp::Of(path_);
  {
    MutexLock lock(&mutex_);
    if (path_.empty() || stamp == stamp_) return;
    stamp_ = stamp;
  }
  const absl::Status read = Read();
  if (!read.ok()) {
    LogWarning(absl::StrCat("tenants stay as they are: ", read.message()));
  }
}

}  // namespace espalier::coordinator
