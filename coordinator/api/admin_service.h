#ifndef ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
#define ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_

#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/admin.grpc.pb.h"

namespace espalier::coordinator {

// The operators' API over a Coordinator, which it borrows. Thread-safe.
class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(Coordinator* coordinator)
      : coordinator_(*coordinator) {}

  grpc::ServerUnaryReactor* ListDrafters(
      grpc::CallbackServerContext* context,
      const v1::ListDraftersRequest* request,
      v1::ListDraftersResponse* response) override;
  grpc::ServerUnaryReactor* SetDrafter(grpc::CallbackServerContext* context,
                                       const v1::SetDrafterRequest* request,
                                       v1::DrafterSettings* response) override;

 private:
  Coordinator& coordinator_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
