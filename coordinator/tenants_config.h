#ifndef ESPALIER_COORDINATOR_TENANTS_CONFIG_H_
#define ESPALIER_COORDINATOR_TENANTS_CONFIG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "common/base/reload.h"
#include "coordinator/tenants/tenant_table.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// INVALID_ARGUMENT names the field.
absl::StatusOr<std::vector<TenantTerms>> TenantsFromConfig(
    const v1::TenantsConfig& config);

// The list of core.tenants_file. It is replaced as a whole: while the file is
// not valid, the list stays. Thread-safe.
class TenantsFile {
 public:
  TenantsFile(std::string path, TenantTable* table)
      : path_(std::move(path)), table_(table) {}

  // Errors name the file.
  absl::Status Read();
  // Reads it again if it has changed; the log says what became of it.
  void Refresh();
  // For Reload, which may call it for as long as this object lives.
  absl::StatusOr<Reload::Install> ReadAgain();

 private:
  absl::StatusOr<std::vector<TenantTerms>> ReadList() const;
  void Install(const FileStamp& stamp, const std::vector<TenantTerms>& list)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;  // empty: none
  TenantTable* const table_;
  Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TENANTS_CONFIG_H_
