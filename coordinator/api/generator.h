#ifndef ESPALIER_COORDINATOR_API_GENERATOR_H_
#define ESPALIER_COORDINATOR_API_GENERATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/speculation/types.h"
#include "coordinator/api/answer_stream.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// One call of Inference.Generate, pulled by its reader. Its destruction cancels
// what has not ended. For one thread at a time.
class GenerateCall {
 public:
  virtual ~GenerateCall() = default;
  // The next message, with all that has come since the last one of its output;
  // nullopt: nothing now.
  virtual std::optional<v1::GenerateResponse> Take() = 0;
  // How the call has ended; nullopt: it has not, or Take has more.
  virtual std::optional<absl::Status> End() = 0;
};

// Inference.Generate without gRPC: the same requests, messages and errors.
// Thread-safe.
class Generator {
 public:
  virtual ~Generator() = default;
  // Never null: a refused call has ended. `wake` is called on any thread when
  // Take or End has something new, perhaps before Start returns and perhaps
  // after the call is gone.
  virtual std::unique_ptr<GenerateCall> Start(v1::GenerateRequest request,
                                              const Caller& caller,
                                              std::function<void()> wake) = 0;
  // The prompt of a request that is not run, in tokens. `done` is called once,
  // on any thread. FieldErrors; RESOURCE_EXHAUSTED.
  using Tokens = absl::StatusOr<std::vector<TokenId>>;
  virtual void Encode(v1::GenerateRequest request,
                      absl::AnyInvocable<void(Tokens) &&> done) = 0;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATOR_H_
