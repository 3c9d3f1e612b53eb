#ifndef ESPALIER_COORDINATOR_API_LOCAL_GENERATOR_H_
#define ESPALIER_COORDINATOR_API_LOCAL_GENERATOR_H_

#include <functional>
#include <memory>

#include "coordinator/api/generate_calls.h"
#include "coordinator/api/generator.h"

namespace espalier::coordinator {

// A Generator over the calls of this process, which it borrows: they outlive it
// and its calls.
class LocalGenerator final : public Generator {
 public:
  explicit LocalGenerator(GenerateCalls* calls) : calls_(calls) {}

  std::unique_ptr<GenerateCall> Start(v1::GenerateRequest request,
                                      const Caller& caller,
                                      std::function<void()> wake) override;
  void Encode(v1::GenerateRequest request,
              absl::AnyInvocable<void(Tokens) &&> done) override;

 private:
  GenerateCalls* const calls_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_LOCAL_GENERATOR_H_
