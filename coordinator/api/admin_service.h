#ifndef ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
#define ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_

#include "coordinator/rounds/coordinator.h"
#include "espalier/v1/admin.grpc.pb.h"

namespace espalier::coordinator {

// The operators' API over a Coordinator, which it borrows. Methods get raw
// bytes: see read_message.h. Thread-safe.
class AdminService final
    : public v1::Admin::WithRawCallbackMethod_ListDrafters<
          v1::Admin::WithRawCallbackMethod_SetDrafter<v1::Admin::Service>> {
 public:
  explicit AdminService(Coordinator* coordinator)
      : coordinator_(*coordinator) {}

  grpc::ServerUnaryReactor* ListDrafters(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* SetDrafter(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* message,
                                       grpc::ByteBuffer* response) override;

 private:
  Coordinator& coordinator_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_ADMIN_SERVICE_H_
