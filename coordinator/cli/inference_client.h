#ifndef ESPALIER_COORDINATOR_CLI_INFERENCE_CLIENT_H_
#define ESPALIER_COORDINATOR_CLI_INFERENCE_CLIENT_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/answer.h"
#include "coordinator/cli/channel.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

struct CallOptions {
  absl::Duration timeout;
  std::stop_token interrupt = {};  // cancels the call
};

// Calls a coordinator; blocks. Thread-safe. Errors carry the call's code; the
// message begins with the code's name and names the field of a bad request.
class InferenceClient {
 public:
  // INVALID_ARGUMENT: not an address (channel.h). Does not connect yet.
  static absl::StatusOr<std::unique_ptr<InferenceClient>> Create(
      const std::string& address, const Credentials& credentials = {});
  ~InferenceClient();

  // Called with new text of output 0 as it arrives, after the prompt's if that
  // is returned; returning false ends the call with ABORTED.
  using OnText = absl::FunctionRef<bool(const std::string& text)>;

  // All outputs of a request, at least one.
  absl::StatusOr<std::vector<Answer>> GenerateAll(
      const v1::GenerateRequest& request, const CallOptions& options,
      OnText on_text);
  // Output 0.
  absl::StatusOr<Answer> Generate(const v1::GenerateRequest& request,
                                  const CallOptions& options, OnText on_text);
  absl::StatusOr<v1::GetModelInfoResponse> GetModelInfo(
      const CallOptions& options);
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& options);
  absl::StatusOr<v1::GetLoadResponse> GetLoad(const CallOptions& options);

 private:
  struct Connection;
  explicit InferenceClient(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_INFERENCE_CLIENT_H_
