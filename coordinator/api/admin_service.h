#ifndef ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
#define ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/access_gate.h"
#include "coordinator/api/audit_log.h"
#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/admin.grpc.pb.h"

namespace espalier::coordinator {

// The operators' API over a Coordinator, which it borrows. Each call has a line
// in the audit. Methods get raw bytes: see read_message.h. Thread-safe.
class AdminService final
    : public v1::Admin::WithRawCallbackMethod_ListDrafters<
          v1::Admin::WithRawCallbackMethod_SetDrafter<v1::Admin::Service>> {
 public:
  AdminService(Coordinator* coordinator, std::shared_ptr<const AccessGate> gate,
               std::unique_ptr<AuditLog> audit);

  grpc::ServerUnaryReactor* ListDrafters(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* SetDrafter(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response) override;

 private:
  // Admits the caller and writes the line; not OK: the call is not to be done.
  absl::Status Audit(const grpc::ServerContextBase& context, AuditEntry entry);
  // JSON of a drafter's settings; empty: there is no such drafter.
  std::string SettingsOf(const std::string& drafter) const;

  Coordinator& coordinator_;
  const std::shared_ptr<const AccessGate> gate_;
  const std::unique_ptr<AuditLog> audit_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
