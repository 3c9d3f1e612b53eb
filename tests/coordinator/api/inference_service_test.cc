#include "coordinator/api/inference_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/rpc/status_convert.h"
#include "common/speculation/request_errors.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/api/local_generator.h"
#include "espalier/v1/inference.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "tests/coordinator/toy_cluster.h"
#include "tests/testing/finished_generation.h"
#include "tests/testing/source_path.h"

namespace espalier::coordinator {
namespace {

using ::testing::StartsWith;

// Returns a deadline that no machine needs; only a failing test waits for it.
absl::Time Generous() { return absl::Now() + absl::Seconds(60); }

TEST(InferenceServiceWithoutAVerifierTest, TheModelIsToBeAskedForLater) {
  InferenceService service({.verifier_info = [] { return std::nullopt; }});
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::Inference::NewStub(server->InProcessChannel({}));
  grpc::ClientContext context;
  v1::GetModelInfoResponse response;
  const grpc::Status status = stub->GetModelInfo(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_details().find("RetryInfo"), std::string::npos);
}

// A request of a client, which reads its answer on a thread of its own.
class Call {
 public:
  Call(v1::Inference::Stub& stub, const v1::GenerateRequest& request)
      : stream_(stub.Generate(&context_, request)),
        thread_([this] { Read(); }) {}
  ~Call() { thread_.join(); }

  // Returns the id in the first message; empty: the request ended without one.
  std::string AwaitId() {
    first_.Wait();
    return id_;
  }
  grpc::Status AwaitEnd() {
    ended_.Wait();
    return status_;
  }
  bool has_ended() const { return ended_.HasBeenNotified(); }

 private:
  void Read() {
    v1::GenerateResponse response;
    if (stream_->Read(&response)) id_ = response.request_id();
    first_.Notify();
    while (stream_->Read(&response)) {
    }
    status_ = stream_->Finish();
    ended_.Notify();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> stream_;
  std::string id_;
  grpc::Status status_;
  Notification first_;
  Notification ended_;
  std::thread thread_;
};

// A service over a coordinator with threads, and a verifier that answers as
// often as a test says.
class InferenceServiceTest : public ::testing::Test {
 protected:
  InferenceServiceTest() {
    auto tokenizer = Tokenizer::Load(SourcePath("deploy/models/nanogpt-char"));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    RegisterMergePolicies(policies_);
    verifier_.Behave([this] {
      return FakeVerifyEndpoint::Behaviour{
          .delay = answers_left_-- > 0 ? absl::ZeroDuration() : kHeld};
    });
    const auto info = [] { return ToyCluster::ToyVerifierInfo(); };
    auto coordinator = Coordinator::Create({.executor = &executor_,
                                            .verifier = &verifier_,
                                            .verifier_info = info,
                                            .policies = &policies_,
                                            .metrics = &metrics_,
                                            .epoch = 7,
                                            .model = "toy"});
    EXPECT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    calls_ = std::make_unique<GenerateCalls>(GenerateCalls::Options{
        .coordinator = coordinator_.get(),
        .model = {.name = "toy", .tokenizer = tokenizer_.get()},
        .verifier_info = info,
        .tenant_metadata = true,
        .encode_prompt = [this](const auto& request, const ServedModel& model) {
          ++num_encoded_;
          if (request.request_id() == "waits") {
            encoding_.Notify();
            go_on_.Wait();
          }
          return EncodePrompt(request, model);
        }});
    service_ = std::make_unique<InferenceService>(
        InferenceService::Options{.coordinator = coordinator_.get(),
                                  .calls = calls_.get(),
                                  .verifier_info = info});
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::Inference::NewStub(server_->InProcessChannel({}));
  }
  ~InferenceServiceTest() override {
    espalier::testing::ShutDownAndWait(*coordinator_);
    server_->Shutdown();
  }

  static v1::GenerateRequest Request(const std::string& id = "") {
    v1::GenerateRequest request;
    if (!id.empty()) request.set_request_id(id);
    for (const uint32_t token : {3, 1, 4}) {
      request.mutable_token_ids()->add_ids(token);
    }
    request.set_max_tokens(20);
    request.set_ignore_eos(true);
    return request;
  }

  grpc::StatusCode Abort(const std::string& id) {
    grpc::ClientContext context;
    v1::AbortRequest request;
    request.set_request_id(id);
    v1::AbortResponse response;
    return stub_->Abort(&context, request, &response).error_code();
  }

  // Runs what has been posted to the coordinator.
  void Flush() {
    Notification done;
    executor_.Post([&done] { done.Notify(); });
    done.Wait();
  }

  // Starts a request without an id, and waits for its first token and for its
  // second round, which is not answered.
  std::unique_ptr<Call> StartUnnamed() {
    answers_left_ = 1;
    auto call = std::make_unique<Call>(*stub_, Request());
    EXPECT_THAT(call->AwaitId(), StartsWith("req-"));
    Flush();
    return call;
  }

  // Requests that ended with this code, by the metrics.
  double Ended(const std::string& code) {
    Flush();
    double count = 0;
    for (const prometheus::MetricFamily& family : metrics_.Collect()) {
      if (family.name != "espalier_requests_total") continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        for (const auto& label : metric.label) {
          if (label.value == code) count += metric.counter.value;
        }
      }
    }
    return count;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  Registry<MergePolicy> policies_{"strategy"};
  prometheus::Registry metrics_;
  std::atomic<int> answers_left_ = 0;
  std::atomic<int> num_encoded_ = 0;
  Notification encoding_;
  Notification go_on_;
  SerialExecutor executor_{"coordinator"};
  FakeVerifyEndpoint verifier_{&executor_, {}};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<GenerateCalls> calls_;
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST_F(InferenceServiceTest, AbortFindsARequestWhosePromptIsBeingTokenized) {
  Call call(*stub_, Request("waits"));
  encoding_.Wait();
  EXPECT_EQ(Abort("waits"), grpc::StatusCode::OK);
  EXPECT_FALSE(call.has_ended()) << "its thread still uses it";
  go_on_.Notify();
  EXPECT_EQ(call.AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Abort("waits"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ended("CANCELLED"), 1);
  EXPECT_TRUE(verifier_.requests().empty());
}

TEST_F(InferenceServiceTest, APromptThatIsAbortedBeforeItsTurnIsNotTokenized) {
  Call first(*stub_, Request("waits"));
  encoding_.Wait();
  Call second(*stub_, Request("second"));
  const absl::Time deadline = Generous();
  // It may not have arrived yet.
  grpc::StatusCode aborted = Abort("second");
  while (aborted == grpc::StatusCode::NOT_FOUND && absl::Now() < deadline) {
    aborted = Abort("second");
  }
  EXPECT_EQ(aborted, grpc::StatusCode::OK);
  go_on_.Notify();
  EXPECT_EQ(second.AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(num_encoded_, 1);
  EXPECT_EQ(Abort("waits"), grpc::StatusCode::OK) << "it runs";
  EXPECT_EQ(first.AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Ended("CANCELLED"), 2);
}

// Otherwise any number of prompts that take long could wait there.
TEST_F(InferenceServiceTest, PromptsThatWaitTakeThePlacesOfRequests) {
  const Coordinator::LoadInfo load = coordinator_->Load();
  Call first(*stub_, Request("waits"));
  encoding_.Wait();
  std::vector<std::unique_ptr<Call>> others;  // one too many
  for (int64_t i = 0; i < load.max_sessions + load.max_queued; ++i) {
    others.push_back(
        std::make_unique<Call>(*stub_, Request(absl::StrCat("other", i))));
  }
  const auto has_ended = [](const auto& call) { return call->has_ended(); };
  while (std::none_of(others.begin(), others.end(), has_ended)) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const auto refused = std::find_if(others.begin(), others.end(), has_ended);
  EXPECT_EQ((*refused)->AwaitEnd().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(std::count_if(others.begin(), others.end(), has_ended), 1);
  EXPECT_EQ(num_encoded_, 1);
  go_on_.Notify();
  Abort("waits");
  for (size_t i = 0; i < others.size(); ++i) Abort(absl::StrCat("other", i));
}

// A gateway knows the tenants; here are those with a part of the places.
TEST_F(InferenceServiceTest, AGatewayNamesATenantOfTheList) {
  coordinator_->tenants().Set({{.name = "acme", .requests_per_minute = 1}});
  answers_left_ = 1000;
  const auto call = [this](const std::string& tenant) {
    grpc::ClientContext context;
    if (!tenant.empty()) context.AddMetadata("x-tenant", tenant);
    const auto stream = stub_->Generate(&context, Request());
    v1::GenerateResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  EXPECT_TRUE(call("acme").ok());
  const grpc::Status over = call("acme");
  EXPECT_EQ(over.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(over)), "QUOTA_EXCEEDED");
  EXPECT_GT(RetryAfter(FromGrpcStatus(over)), absl::Seconds(30));
  EXPECT_TRUE(call("").ok()) << "one of the others";
  const grpc::Status unknown = call("stranger");
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(FromGrpcStatus(unknown)), "x-tenant");
}

TEST_F(InferenceServiceTest, RequestsThatEndBeforeTheyStartAreCounted) {
  v1::GenerateRequest request = Request();
  request.set_max_tokens(1);
  request.set_model("another");
  EXPECT_EQ(Call(*stub_, request).AwaitEnd().error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Ended("NOT_FOUND"), 1);
  request.clear_model();
  for (int i = 0; i < 2000; ++i) request.mutable_token_ids()->add_ids(1);
  EXPECT_EQ(Call(*stub_, request).AwaitEnd().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request = Request();
  request.mutable_token_ids()->add_ids(~uint32_t{0});
  EXPECT_EQ(Call(*stub_, request).AwaitEnd().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request = Request();
  request.mutable_token_ids()->add_ids(50);  // outside the vocabulary
  EXPECT_EQ(Call(*stub_, request).AwaitEnd().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Ended("INVALID_ARGUMENT"), 3);
}

// Its id is what a client would have to know.
TEST_F(InferenceServiceTest, NobodyElseEndsARequestWhoseIdTheServerSampled) {
  const auto one = StartUnnamed();
  const auto other = StartUnnamed();
  const std::string id = one->AwaitId();
  EXPECT_NE(id, other->AwaitId());
  EXPECT_EQ(id.size(), std::string("req-0123456789abcdef").size());
  std::string near = id;
  near.back() = near.back() == '0' ? '1' : '0';
  for (const std::string& guess :
       {std::string(), std::string("req-"), std::string("1"), std::string("2"),
        std::string("req-0000000000000001"), near, id.substr(4), id + " "}) {
    EXPECT_NE(Abort(guess), grpc::StatusCode::OK) << guess;
  }
  EXPECT_EQ(coordinator_->Load().running, 2);
  EXPECT_EQ(Abort(id), grpc::StatusCode::OK);
  EXPECT_EQ(one->AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_FALSE(other->has_ended());
  EXPECT_EQ(Abort(other->AwaitId()), grpc::StatusCode::OK);
  EXPECT_EQ(other->AwaitEnd().error_code(), grpc::StatusCode::CANCELLED);
}

// Makes the calls without gRPC; something new wakes their reader.
class LocalGeneratorTest : public InferenceServiceTest {
 protected:
  std::unique_ptr<GenerateCall> Start(const v1::GenerateRequest& request) {
    return generator_.Start(request, {.peer = "unix:"}, [this] {
      MutexLock lock(&mutex_);
      ++num_wakes_;
    });
  }
  // Waits until the call has been woken this often.
  void AwaitWakes(int count) {
    MutexLock lock(&mutex_);
    EXPECT_TRUE(
        mutex_.AwaitUntil([&] { return num_wakes_ >= count; }, Generous()));
  }

  LocalGenerator generator_{calls_.get()};
  Mutex mutex_;
  int num_wakes_ = 0;  // guarded by mutex_
};

TEST_F(LocalGeneratorTest, AnAnswerIsTakenThenEnds) {
  answers_left_ = 100;
  v1::GenerateRequest request = Request("mine");
  request.set_max_tokens(1);
  const auto call = Start(request);
  AwaitWakes(2);  // a token, the end
  EXPECT_EQ(call->End(), std::nullopt);
  const auto message = call->Take();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->request_id(), "mine");
  EXPECT_EQ(message->token_ids_size(), 1);
  EXPECT_TRUE(message->has_summary());
  EXPECT_EQ(call->Take(), std::nullopt);
  EXPECT_EQ(call->End(), absl::OkStatus());
}

TEST_F(LocalGeneratorTest, ARefusedCallHasEnded) {
  v1::GenerateRequest request = Request();
  request.set_model("another");
  const auto call = Start(request);
  EXPECT_FALSE(call->Take().has_value());
  EXPECT_EQ(call->End()->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Ended("NOT_FOUND"), 1);
}

TEST_F(LocalGeneratorTest, AReaderThatLeavesEndsItsRequest) {
  answers_left_ = 1;
  auto call = Start(Request());
  AwaitWakes(1);
  call.reset();
  while (Ended("CANCELLED") == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(coordinator_->Load().running, 0);
}

TEST_F(LocalGeneratorTest, AReaderThatLeavesBeforeItsPromptIsTokenized) {
  auto call = Start(Request("waits"));
  encoding_.Wait();
  call.reset();
  go_on_.Notify();
  while (Ended("CANCELLED") == 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(LocalGeneratorTest, APromptIsTokenizedWithoutARequest) {
  Notification done;
  Generator::Tokens tokens;
  generator_.Encode(Request(), [&](Generator::Tokens result) {
    tokens = std::move(result);
    done.Notify();
  });
  done.Wait();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->size(), 3);
  EXPECT_EQ(coordinator_->Load().running, 0);
}

// Its client resumes after the tokens that it has, whose text is not certain
// yet: what was held back comes then.
TEST_F(InferenceServiceTest, TextThatIsHeldBackDoesNotComeWithUnavailable) {
  const std::string first = tokenizer_->Decode({ToyTarget().Next({3, 1, 4})},
                                               /*skip_special=*/true);
  v1::GenerateRequest request = Request();
  request.add_stop(first + "?!");
  answers_left_ = 1;
  grpc::ClientContext context;
  const auto stream = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.token_ids_size(), 1);
  EXPECT_EQ(response.text(), "");
  EXPECT_TRUE(response.has_origin());
  EXPECT_TRUE(response.has_seed());
  coordinator_->Shutdown([] {});
  EXPECT_FALSE(stream->Read(&response)) << response.ShortDebugString();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace espalier::coordinator
