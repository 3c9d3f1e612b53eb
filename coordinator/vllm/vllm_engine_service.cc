#include "coordinator/vllm/vllm_engine_service.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/model/files/tokenizer_artifacts.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/spec/request_errors.h"
#include "coordinator/api/generate_reactor.h"
#include "coordinator/vllm/null_content.h"
#include "coordinator/vllm/stored_zip.h"
#include "coordinator/vllm/vllm_answer.h"
#include "coordinator/vllm/vllm_request.h"

namespace espalier::coordinator {
namespace {

namespace engine = vllm::grpc::engine;
using smg::grpc::common::GetTokenizerChunk;

std::string Sha256(absl::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         digest.data());
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

absl::StatusOr<std::string> ArchiveOf(const std::string& model_path) {
  ASSIGN_OR_RETURN(std::vector<TextFile> files, TokenizerArtifacts(model_path));
  CheckNullContent(files);
  return StoredZip(files);
}

absl::Status NoVerifier() {
  return WithRetryAfter(
      absl::UnavailableError("no verifier has been connected yet"),
      absl::Seconds(1));
}

// Sends an archive in chunks, the last one with its hash. Deletes itself.
class ArchiveReactor final
    : public grpc::ServerWriteReactor<GetTokenizerChunk> {
 public:
  ArchiveReactor(absl::string_view archive, const std::string& sha256)
      : rest_(archive), sha256_(sha256) {
    Next();
  }
  explicit ArchiveReactor(const absl::Status& status) {
    Finish(ToGrpcStatus(status));
  }

 private:
  static constexpr size_t kChunkBytes = size_t{64} << 10;

  void Next() {
    if (rest_.empty()) {
      Finish(grpc::Status::OK);
      return;
    }
    const absl::string_view chunk = rest_.substr(0, kChunkBytes);
    rest_.remove_prefix(chunk.size());
    chunk_.set_data(std::string(chunk));
    if (rest_.empty()) chunk_.set_sha256(sha256_);
    StartWrite(&chunk_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) rest_ = {};
    Next();
  }
  void OnDone() override { delete this; }

  absl::string_view rest_;
  std::string sha256_;
  GetTokenizerChunk chunk_;  // owned by gRPC during a write
};

}  // namespace

std::unique_ptr<grpc::Service> NewVllmService(VllmServiceOptions options) {
  absl::StatusOr<std::string> archive = ArchiveOf(options.model_path);
  return std::make_unique<VllmEngineService>(std::move(options),
                                             std::move(archive));
}

VllmEngineService::VllmEngineService(VllmServiceOptions options,
                                     absl::StatusOr<std::string> archive)
    : options_(std::move(options)),
      archive_(std::move(archive)),
      archive_sha256_(archive_.ok() ? Sha256(*archive_) : ""),
      start_time_(absl::Now()) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VllmEngineService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message) {
  bool stream = false;
  const auto read = [&]() -> absl::StatusOr<v1::GenerateRequest> {
    ASSIGN_OR_RETURN(const engine::GenerateRequest request,
                     ReadAs<engine::GenerateRequest>(*message));
    stream = request.stream();
    return FromVllm(request);
  };
  absl::StatusOr<v1::GenerateRequest> request = read();
  return StartReactor(*options_.calls, context, message->Length(),
                      std::move(request), /*with_text=*/false,
                      [stream](const GenerationRequest&) {
                        return std::make_unique<VllmAnswer>(stream);
                      });
}

// Requests that are not there have ended, which is what is wanted.
grpc::ServerUnaryReactor* VllmEngineService::Abort(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto request = ReadAs<engine::AbortRequest>(*message);
  if (!request.ok()) {
    reactor->Finish(ToGrpcStatus(request.status()));
    return reactor;
  }
  *response = WriteMessage(engine::AbortResponse());
  if (request->request_ids().empty()) {
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  auto left = std::make_shared<std::atomic<int>>(request->request_ids_size());
  for (const std::string& id : request->request_ids()) {
    options_.calls->Abort(id, [reactor, left](bool /*was_live*/) {
      if (--*left == 0) reactor->Finish(grpc::Status::OK);
    });
  }
  return reactor;
}

grpc::ServerUnaryReactor* VllmEngineService::HealthCheck(
    grpc::CallbackServerContext* context, const engine::HealthCheckRequest*,
    engine::HealthCheckResponse* response) {
  const bool healthy =
      options_.verifier_info().has_value() && options_.verifier_is_ready();
  response->set_healthy(healthy);
  response->set_message(healthy ? "serving" : "the verifier is away");
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* VllmEngineService::GetModelInfo(
    grpc::CallbackServerContext* context, const engine::GetModelInfoRequest*,
    engine::GetModelInfoResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::optional<VerifierInfo> info = options_.verifier_info();
  if (!info) {
    reactor->Finish(ToGrpcStatus(NoVerifier()));
    return reactor;
  }
  const std::string& name = options_.calls->model().name;
  response->set_model_path(name);
  response->set_served_model_name(name);
  response->set_is_generation(true);
  response->set_max_context_length(static_cast<uint32_t>(info->max_context));
  response->set_max_req_input_len(static_cast<int32_t>(info->max_context - 1));
  response->set_vocab_size(static_cast<uint32_t>(info->model.vocab_size));
  response->mutable_eos_token_ids()->Add(info->eos_token_ids.begin(),
                                         info->eos_token_ids.end());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* VllmEngineService::GetServerInfo(
    grpc::CallbackServerContext* context, const engine::GetServerInfoRequest*,
    engine::GetServerInfoResponse* response) {
  response->set_active_requests(
      static_cast<uint32_t>(options_.coordinator->Load().running));
  response->set_uptime_seconds(
      absl::ToDoubleSeconds(absl::Now() - start_time_));
  response->set_server_type("espalier");
  response->set_data_parallel_size(1);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* VllmEngineService::GetLoads(
    grpc::CallbackServerContext* context, const engine::GetLoadsRequest*,
    engine::GetLoadsResponse* response) {
  const Coordinator::LoadInfo load = options_.coordinator->Load();
  response->set_timestamp(
      absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone()));
  response->set_version(Version());
  response->set_dp_rank_count(1);
  engine::SchedulerLoad& rank = *response->add_loads();
  rank.set_num_running_reqs(static_cast<int32_t>(load.running));
  rank.set_num_waiting_reqs(static_cast<int32_t>(load.queued));
  rank.set_num_total_reqs(static_cast<int32_t>(load.running + load.queued));
  rank.set_max_running_requests(static_cast<int32_t>(load.max_sessions));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<GetTokenizerChunk>* VllmEngineService::GetTokenizer(
    grpc::CallbackServerContext*,
    const smg::grpc::common::GetTokenizerRequest*) {
  if (!archive_.ok()) return new ArchiveReactor(archive_.status());
  return new ArchiveReactor(*archive_, archive_sha256_);
}

}  // namespace espalier::coordinator
