#ifndef ESPALIER_COORDINATOR_TENANTS_CONFIG_H_
#define ESPALIER_COORDINATOR_TENANTS_CONFIG_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_stamp.h"
#include "coordinator/tenants/tenant_table.h"
#include "espalier/v1/config.pb.h"

namespace espalier::coordinator {

// INVALID_ARGUMENT names the field.
absl::StatusOr<std::vector<TenantTerms>> TenantsFromConfig(
    const v1::TenantsConfig& config);

// The list of core.tenants_file. It is replaced as a whole: while the file is
// not valid, the list stays. Not thread-safe.
class TenantsFile {
 public:
  TenantsFile(std::string path, TenantTable* table)
      : path_(std::move(path)), table_(table) {}

  // Errors name the file.
  absl::Status Read();
  // Reads it again if it has changed; the log says what became of it.
  void Refresh();

 private:
  const std::string path_;  // empty: none
  TenantTable* const table_;
  FileStamp stamp_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_TENANTS_CONFIG_H_
