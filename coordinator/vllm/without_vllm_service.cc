#include "coordinator/vllm/vllm_service.h"

namespace espalier::coordinator {

std::unique_ptr<grpc::Service> NewVllmService(VllmServiceOptions /*options*/) {
  return nullptr;
}

}  // namespace espalier::coordinator
