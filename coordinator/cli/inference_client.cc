#include "coordinator/cli/inference_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/failover.h"
#include "coordinator/cli/resumption.h"
#include "coordinator/cli/rpc_status.h"
#include "espalier/v1/inference.grpc.pb.h"

namespace espalier::cli {
namespace {

using StopCallback = std::stop_callback<std::function<void()>>;

void Add(const v1::GenerateResponse& message, Answer& answer) {
  if (answer.first_message_tokens == 0) {
    answer.request_id = message.request_id();
    answer.index = message.index();
    answer.first_message_tokens = message.token_ids_size();
  }
  answer.token_ids.insert(answer.token_ids.end(), message.token_ids().begin(),
                          message.token_ids().end());
  answer.text += message.text();
  answer.logprobs.insert(answer.logprobs.end(), message.logprobs().begin(),
                         message.logprobs().end());
  if (message.has_seed()) answer.seed = message.seed();
  if (message.has_origin()) answer.origin = message.origin();
  if (message.has_prompt()) answer.prompt = message.prompt();
  if (message.has_summary()) answer.summary = message.summary();
}

// What ended the reading of a stream.
enum class ReadEnd { kStream, kCannotWrite, kBeganAgain };

// Reads until the stream ends or `on_text` returns false. `resumes`: whether it
// has to go on with `answers`.
ReadEnd ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader, bool resumes,
                InferenceClient::OnText on_text, std::vector<Answer>& answers) {
  v1::GenerateResponse message;
  while (reader.Read(&message)) {
    // More than there are: the server is broken, and nothing is kept for it.
    if (message.index() >= answers.size()) continue;
    Answer& answer = answers[message.index()];
    // Servers before 0.3.0 do not know what a resumption is.
    const bool is_first =
        answer.first_message_tokens == 0 && message.token_ids_size() > 0;
    if (resumes && is_first && !message.has_origin()) {
      return ReadEnd::kBeganAgain;
    }
    Add(message, answer);
    const std::string text = message.prompt().text() + message.text();
    if (message.index() == 0 && !text.empty() && !on_text(text)) {
      return ReadEnd::kCannotWrite;
    }
  }
  return ReadEnd::kStream;
}

int64_t NumTokens(const std::vector<Answer>& answers) {
  int64_t count = 0;
  for (const Answer& answer : answers) count += std::ssize(answer.token_ids);
  return count;
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

  // Adds to `answers` what a call returns. `resumable`: whether the error, if
  // it is one, lets another connection go on.
  absl::Status Generate(const v1::GenerateRequest& request, absl::Time deadline,
                        const CallOptions& options, OnText on_text,
                        std::vector<Answer>& answers, bool& resumable) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(deadline));
    StopCallback on_stop(options.interrupt, [&] { context.TryCancel(); });
    auto reader = stub->Generate(&context, request);
    const ReadEnd end =
        ReadAll(*reader, request.has_resumption(), on_text, answers);
    if (end != ReadEnd::kStream) context.TryCancel();
    const grpc::Status status = reader->Finish();
    resumable = end == ReadEnd::kBeganAgain ||
                (IsResumable(status) && !options.interrupt.stop_requested());
    if (end == ReadEnd::kCannotWrite) {
      return absl::AbortedError("cannot write the answer");
    }
    if (end == ReadEnd::kBeganAgain) {
      return absl::UnimplementedError(
          absl::StrCat(address, " does not resume answers"));
    }
    return status.ok() ? absl::OkStatus() : FromInference(status, address);
  }

  std::string address;
  std::unique_ptr<v1::Inference::Stub> stub;
};

absl::StatusOr<std::unique_ptr<InferenceClient>> InferenceClient::Create(
    const std::string& addresses, const Credentials& credentials) {
  Connections connections;
  for (const std::string& address :
       std::vector<std::string>(absl::StrSplit(addresses, ','))) {
    auto channel = OpenChannel(address, credentials);
    if (!channel.ok()) return channel.status();
    connections.push_back(std::make_unique<Connection>(
        Connection{address, v1::Inference::NewStub(*channel)}));
  }
  return std::unique_ptr<InferenceClient>(
      new InferenceClient(std::move(connections)));
}

InferenceClient::InferenceClient(Connections connections)
    : connections_(std::move(connections)) {}

InferenceClient::~InferenceClient() = default;

template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> InferenceClient::Call(Method method,
                                               const Request& request,
                                               const CallOptions& options) {
  absl::StatusOr<Response> response;
  for (const auto& connection : connections_) {
    response = connection->Call<Response>(method, request, options);
    if (!absl::IsUnavailable(response.status())) break;
  }
  return response;
}

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
  const absl::Time deadline = absl::Now() + options.timeout;
  // A number of outputs that the server refuses takes no memory here.
  constexpr uint32_t kMaxOutputs = 1024;
  std::vector<Answer> answers(
      request.has_n() ? std::clamp(request.n(), 1u, kMaxOutputs) : 1);
  Failover failover(connections_.size(), options);
  for (;;) {
    bool resumable = false;
    const int64_t before = NumTokens(answers);
    const absl::Status status = connections_[failover.current()]->Generate(
        RestOf(request, answers), deadline, options, on_text, answers,
        resumable);
    if (status.ok()) break;
    const bool progress = NumTokens(answers) > before;
    if (!resumable || !failover.Next(progress)) return status;
    BeginResumption(answers);
  }
  for (const Answer& answer : answers) {
    if (answer.summary.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) {
      return absl::InternalError("the answer ended without a summary");
    }
  }
  return answers;
}

absl::StatusOr<v1::GetModelInfoResponse> InferenceClient::GetModelInfo(
    const CallOptions& options) {
  return Call<v1::GetModelInfoResponse>(&v1::Inference::Stub::GetModelInfo,
                                        v1::GetModelInfoRequest(), options);
}

absl::StatusOr<v1::GetServerInfoResponse> InferenceClient::GetServerInfo(
    const CallOptions& options) {
  return Call<v1::GetServerInfoResponse>(&v1::Inference::Stub::GetServerInfo,
                                         v1::GetServerInfoRequest(), options);
}

absl::StatusOr<v1::GetLoadResponse> InferenceClient::GetLoad(
    const CallOptions& options) {
  return Call<v1::GetLoadResponse>(&v1::Inference::Stub::GetLoad,
                                   v1::GetLoadRequest(), options);
}

}  // namespace espalier::cli
