#include "tests/testing/fake_inference.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "common/base/check.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace espalier::testing {
namespace {

// Plays one FakeAnswer to one call. Owns itself until OnDone.
class AnswerReactor final
    : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  AnswerReactor(FakeAnswer answer, Notification& cancelled)
      : answer_(std::move(answer)), cancelled_(cancelled) {
    Next();
  }

  void OnWriteDone(bool ok) override {
    if (ok) Next();
  }
  void OnCancel() override {
    if (!answer_.hang) return;
    cancelled_.Notify();
    Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (next_ < answer_.messages.size()) {
      StartWrite(&answer_.messages[next_++]);
    } else if (!answer_.hang) {
      Finish(answer_.status);
    }
  }

  FakeAnswer answer_;
  Notification& cancelled_;
  size_t next_ = 0;
};

}  // namespace

class FakeInference::Service final : public v1::Inference::CallbackService {
 public:
  explicit Service(FakeInference& owner) : owner_(owner) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext*,
      const v1::GenerateRequest* request) override {
    Script script;
    {
      MutexLock lock(&owner_.mutex_);
      owner_.requests_.push_back(*request);
      script = owner_.script_;
    }
    return new AnswerReactor(script(*request), owner_.cancelled_);
  }

  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context, const v1::GetModelInfoRequest*,
      v1::GetModelInfoResponse* response) override {
    response->set_model("toy");
    response->set_vocab_size(300);
    response->set_tokenizer_fingerprint(0xabc);
    response->set_max_context(64);
    response->add_eos_token_ids(2);
    response->add_strategies("union");
    response->add_rules("walk");
    response->add_drafters("lookup");
    response->add_drafters("bigram");
    MutexLock lock(&owner_.mutex_);
    return Finish(context, owner_.model_info_status_);
  }

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
      v1::GetServerInfoResponse* response) override {
    response->set_version("9.8.7");
    response->mutable_verifier()->set_state(v1::PEER_STATE_READY);
    response->mutable_verifier()->set_detail("cpu");
    v1::PeerInfo::PassCost& cost =
        *response->mutable_verifier()->add_pass_costs();
    cost.set_rows(8);
    cost.set_ms(6.4);
    v1::PeerInfo::Memory& memory =
        *response->mutable_verifier()->mutable_memory();
    memory.set_kv_tokens(8192);
    memory.set_kv_tokens_used(320);
    memory.set_kv_tokens_cached(64);
    memory.set_device_bytes(uint64_t{80} << 30);
    memory.set_device_bytes_used(uint64_t{143} << 29);
    v1::PeerInfo& drafter = *response->add_drafters();
    drafter.set_name("bigram");
    drafter.set_address("unix:/run/bigram");
    drafter.set_state(v1::PEER_STATE_REFUSED);
    drafter.set_detail("another tokenizer");
    return Finish(context, grpc::Status::OK);
  }

  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest*,
                                    v1::GetLoadResponse* response) override {
    response->set_running_requests(3);
    response->set_max_running_requests(16);
    response->set_max_queued_requests(64);
    return Finish(context, grpc::Status::OK);
  }

 private:
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context,
                                          grpc::Status status) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(std::move(status));
    return reactor;
  }

  FakeInference& owner_;
};

FakeInference::FakeInference(const std::string& socket_path)
    : address_("unix:" + socket_path),
      script_([](const v1::GenerateRequest&) {
        return FakeAnswer{
            .status = {grpc::StatusCode::UNIMPLEMENTED, "no script"}};
      }),
      service_(std::make_unique<Service>(*this)) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  ESPALIER_CHECK(server_ != nullptr);
  server_->GetHealthCheckService()->SetServingStatus(
      v1::Inference::service_full_name(), true);
}

FakeInference::~FakeInference() { server_->Shutdown(); }

void FakeInference::SetScript(Script script) {
  MutexLock lock(&mutex_);
  script_ = std::move(script);
}

void FakeInference::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void FakeInference::SetModelInfoStatus(grpc::Status status) {
  MutexLock lock(&mutex_);
  model_info_status_ = std::move(status);
}

std::vector<v1::GenerateRequest> FakeInference::requests() const {
  MutexLock lock(&mutex_);
  return requests_;
}

grpc::Status BadRequestStatus(const std::string& message,
                              const std::string& field,
                              const std::string& description) {
  google::rpc::BadRequest bad_request;
  auto* violation = bad_request.add_field_violations();
  violation->set_field(field);
  violation->set_description(description);
  google::rpc::Status details;
  details.set_code(grpc::StatusCode::INVALID_ARGUMENT);
  details.set_message(message);
  details.add_details()->PackFrom(bad_request);
  return {grpc::StatusCode::INVALID_ARGUMENT, message,
          details.SerializeAsString()};
}

}  // namespace espalier::testing
