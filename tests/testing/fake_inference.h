#ifndef ESPALIER_TESTS_TESTING_FAKE_INFERENCE_H_
#define ESPALIER_TESTS_TESTING_FAKE_INFERENCE_H_

#include <grpcpp/server.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/notification.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::testing {

// The answer to one Generate call.
struct FakeAnswer {
  std::vector<v1::GenerateResponse> messages = {};
  grpc::Status status = grpc::Status::OK;
  bool hang = false;  // after the messages, until the client cancels
};

// The client API with scripted answers, on a Unix socket. Thread-safe.
class FakeInference {
 public:
  using Script = std::function<FakeAnswer(const v1::GenerateRequest&)>;

  explicit FakeInference(const std::string& socket_path);
  ~FakeInference();

  const std::string& address() const { return address_; }
  void SetScript(Script script);
  void SetServing(bool serving);
  // The error of GetModelInfo.
  void SetModelInfoStatus(grpc::Status status);

  // Returns the requests in order of arrival.
  std::vector<v1::GenerateRequest> requests() const;
  // Notified when a call of a hanging script was cancelled.
  Notification& cancelled() { return cancelled_; }

 private:
  class Service;

  std::string address_;
  mutable Mutex mutex_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  grpc::Status model_info_status_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  Notification cancelled_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

// Returns an INVALID_ARGUMENT with a google.rpc.BadRequest about `field`.
grpc::Status BadRequestStatus(const std::string& message,
                              const std::string& field,
                              const std::string& description);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_FAKE_INFERENCE_H_
