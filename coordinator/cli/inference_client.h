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
  // With several coordinators: how long none of them may go on with an answer.
  absl::Duration patience = absl::Seconds(10);
};

// Calls a coordinator, or the first one of several that answers; blocks.
// Thread-safe. Errors carry the call's code; the message begins with the code's
// name and names the field of a bad request.
class InferenceClient {
 public:
  // `addresses`: one, or several separated by commas. INVALID_ARGUMENT: one is
  // not an address (channel.h). Does not connect yet.
  static absl::StatusOr<std::unique_ptr<InferenceClient>> Create(
      const std::string& addresses, const Credentials& credentials = {});
  ~InferenceClient();

  // Called with new text of output 0 as it arrives, after the prompt's if that
  // is returned; returning false ends the call with ABORTED.
  using OnText = absl::FunctionRef<bool(const std::string& text)>;

  // All outputs of a request, at least one. If a coordinator is lost before the
  // end, the next one goes on where it ended.
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
  using Connections = std::vector<std::unique_ptr<Connection>>;
  explicit InferenceClient(Connections connections);

  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request,
                                const CallOptions& options);

  const Connections connections_;  // at least one
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_INFERENCE_CLIENT_H_
