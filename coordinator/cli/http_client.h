#ifndef ESPALIER_COORDINATOR_CLI_HTTP_CLIENT_H_
#define ESPALIER_COORDINATOR_CLI_HTTP_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/http/client.h"
#include "coordinator/cli/inference_client.h"

namespace espalier::cli {

// Streams answers over the HTTP API, as InferenceClient does over gRPC. For a
// server without keys. Thread-safe: each call has a connection of its own while
// it lasts.
class HttpClient {
 public:
  // INVALID_ARGUMENT: not http://HOST:PORT. Does not connect yet.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(std::string url);

  // Output 0, of a prompt or a chat with the fields that `espalier load` sets.
  absl::StatusOr<Answer> Generate(const v1::GenerateRequest& request,
                                  const CallOptions& options,
                                  InferenceClient::OnText on_text);

 private:
  explicit HttpClient(std::string url) : url_(std::move(url)) {}
  absl::StatusOr<std::unique_ptr<http::Client>> Take();

  const std::string url_;
  Mutex mutex_;
  std::vector<std::unique_ptr<http::Client>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_HTTP_CLIENT_H_
