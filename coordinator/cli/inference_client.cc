#include "coordinator/cli/inference_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "coordinator/cli/rpc_status.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::cli {
namespace {

using StopCallback = std::stop_callback<std::function<void()>>;

void Add(const v1::GenerateResponse& message, Answer& answer) {
  if (answer.token_ids.empty()) {
    answer.request_id = message.request_id();
    answer.index = message.index();
    answer.first_message_tokens = message.token_ids_size();
  }
  answer.token_ids.insert(answer.token_ids.end(), message.token_ids().begin(),
                          message.token_ids().end());
  answer.text += message.text();
  answer.logprobs.insert(answer.logprobs.end(), message.logprobs().begin(),
                         message.logprobs().end());
  if (message.has_prompt()) answer.prompt = message.prompt();
  if (message.has_summary()) answer.summary = message.summary();
}

// Reads until the stream ends or `on_text` returns false.
bool ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader,
             InferenceClient::OnText on_text, std::vector<Answer>& answers) {
  v1::GenerateResponse message;
  while (reader.Read(&message)) {
    // More than there are: the server is broken, and nothing is kept for it.
    if (message.index() >= answers.size()) continue;
    Add(message, answers[message.index()]);
    const std::string text = message.prompt().text() + message.text();
    if (message.index() == 0 && !text.empty() && !on_text(text)) return false;
  }
  return true;
}

absl::Status FromInference(const grpc::Status& status,
                           const std::string& address) {
  return WithStartHint(FromRpcStatus(status, address));
}

}  // namespace

struct InferenceClient::Connection {
  // A unary call: which method of the stub, with what.
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request,
                                const CallOptions& options) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
    StopCallback on_stop(options.interrupt, [&] { context.TryCancel(); });
    Response response;
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    if (!status.ok()) return FromInference(status, address);
    return response;
  }

  std::string address;
  std::unique_ptr<v1::Inference::Stub> stub;
};

absl::StatusOr<std::unique_ptr<InferenceClient>> InferenceClient::Create(
    const std::string& address, const Credentials& credentials) {
  auto channel = OpenChannel(address, credentials);
  if (!channel.ok()) return channel.status();
  auto connection = std::make_unique<Connection>(
      Connection{address, v1::Inference::NewStub(*channel)});
  return std::unique_ptr<InferenceClient>(
      new InferenceClient(std::move(connection)));
}

InferenceClient::InferenceClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

InferenceClient::~InferenceClient() = default;

absl::StatusOr<Answer> InferenceClient::Generate(
    const v1::GenerateRequest& request, const CallOptions& options,
    OnText on_text) {
  auto answers = GenerateAll(request, options, on_text);
  if (!answers.ok()) return answers.status();
  return std::move(answers->front());
}

absl::StatusOr<std::vector<Answer>> InferenceClient::GenerateAll(
    const v1::GenerateRequest& request, const CallOptions& options,
    OnText on_text) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  StopCallback on_stop(options.interrupt, [&] { context.TryCancel(); });
  auto reader = connection_->stub->Generate(&context, request);
  // A number of outputs that the server refuses takes no memory here.
  constexpr uint32_t kMostOutputs = 1024;
  std::vector<Answer> answers(
      request.has_n() ? std::clamp(request.n(), 1u, kMostOutputs) : 1);
  const bool read_all = ReadAll(*reader, on_text, answers);
  if (!read_all) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!read_all) return absl::AbortedError("cannot write the answer");
  if (!status.ok()) return FromInference(status, connection_->address);
  for (const Answer& answer : answers) {
    if (answer.summary.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) {
      return absl::InternalError("the answer ended without a summary");
    }
  }
  return answers;
}

absl::StatusOr<v1::GetModelInfoResponse> InferenceClient::GetModelInfo(
    const CallOptions& options) {
  return connection_->Call<v1::GetModelInfoResponse>(
      &v1::Inference::Stub::GetModelInfo, v1::GetModelInfoRequest(), options);
}

absl::StatusOr<v1::GetServerInfoResponse> InferenceClient::GetServerInfo(
    const CallOptions& options) {
  return connection_->Call<v1::GetServerInfoResponse>(
      &v1::Inference::Stub::GetServerInfo, v1::GetServerInfoRequest(), options);
}

absl::StatusOr<v1::GetLoadResponse> InferenceClient::GetLoad(
    const CallOptions& options) {
  return connection_->Call<v1::GetLoadResponse>(&v1::Inference::Stub::GetLoad,
                                                v1::GetLoadRequest(), options);
}

}  // namespace espalier::cli
