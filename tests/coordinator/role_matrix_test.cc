// Every role against every method of every service.
#include <grpcpp/generic/generic_stub.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/peer_service.h"
#include "common/rpc/server_runner.h"
#include "coordinator/api/admin_service.h"
#include "coordinator/api/inference_service.h"
#include "coordinator/merge/merge_policies.h"
#include "espalier/v1/admin.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/rpc/fake_engines.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using ::testing::HasSubstr;

// Tokens, by the role that they have. "nobody" shows none, "stranger" one that
// is not known.
const std::map<std::string, std::string>& Tokens() {
  static const auto& tokens = *new std::map<std::string, std::string>{
      {"client", "token-of-a-client"},     {"operator", "token-of-an-operator"},
      {"service", "token-of-a-service"},   {"scrape", "token-of-a-scraper"},
      {"stranger", "token-of-a-stranger"}, {"nobody", ""}};
  return tokens;
}

// By `printf TOKEN | sha256sum`.
constexpr char kRoles[] =
    "client c "
    "sha256:89c0bae43ce789406f7c3211172f47a4bc6fc5696ddc08155db75f3432c9421f\n"
    "operator o "
    "sha256:973a0627822f48da2f9f43017af32e3beb37518ff54fafe6a9606edabf298400\n"
    "service s "
    "sha256:811d20a618387c4fa24fbc739626508365f92438d979c7e14f726e2a7a5e8ebc\n"
    "scrape p "
    "sha256:d82be7f05ec6b2db6acf5e16ed0764c2c20c9d16c491b4d213122f31f8099d70\n";

using Roles = std::set<std::string>;
const std::map<std::string, Roles>& Matrix() {
  static const Roles& clients = *new Roles{"client", "operator"};
  static const auto& matrix = *new std::map<std::string, Roles>{
      {"espalier.v1.Inference/Generate", clients},
      {"espalier.v1.Inference/Abort", clients},
      {"espalier.v1.Inference/GetModelInfo", clients},
      {"espalier.v1.Inference/GetServerInfo", {"operator"}},
      {"espalier.v1.Inference/GetLoad", clients},
      {"espalier.v1.Admin/ListDrafters", {"operator"}},
      {"espalier.v1.Admin/SetDrafter", {"operator"}},
      {"espalier.v1.Drafter/Draft", {"service"}},
      {"espalier.v1.Verifier/Verify", {"service"}},
      {"grpc.health.v1.Health/Check",
       {"client", "operator", "service", "scrape", "stranger", "nobody"}}};
  return matrix;
}

class RoleMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string file = ::testing::TempDir() + "/roles";
    std::ofstream(file, std::ios::trunc) << kRoles;
    std::remove(audit_.c_str());
    RegisterMergePolicies(policies_);
    const auto info = [] { return ToyCluster::ToyVerifierInfo(); };
    auto coordinator = Coordinator::Create({.executor = &executor_,
                                            .verifier = &verifier_,
                                            .verifier_info = info,
                                            .policies = &policies_,
                                            .metrics = &*metrics_,
                                            .epoch = 7,
                                            .model = "toy"});
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    calls_ = std::make_unique<GenerateCalls>(GenerateCalls::Options{
        .coordinator = coordinator_.get(), .verifier_info = info});
    v1::ServerConfig config;
    config.add_listen("127.0.0.1:0");
    config.set_roles_file(file);
    auto gate = AccessGate::Open({.roles_file = file});
    ASSERT_TRUE(gate.ok()) << gate.status();
    inference_ = std::make_unique<InferenceService>(
        InferenceService::Options{.coordinator = coordinator_.get(),
                                  .calls = calls_.get(),
                                  .verifier_info = info,
                                  .gate = *gate});
    admin_ = std::make_unique<AdminService>(coordinator_.get(), *gate,
                                            *AuditLog::Open(audit_));
    drafter_ = NewDrafterService(draft_engine_, TestDrafterInfo(), *gate);
    verify_ = NewVerifierService(verify_engine_, TestVerifierInfo(), *gate);
    auto runner = ServerRunner::Start(
        {.config = config,
         .services = {{"espalier.v1.Inference", inference_.get()},
                      {"espalier.v1.Admin", admin_.get()},
                      {"espalier.v1.Drafter", drafter_->calls()},
                      {"espalier.v1.Verifier", verify_->calls()}},
         .registry = metrics_,
         .gate = *gate});
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    channel_ = NewPeerChannel(runner_->addresses()[0]);
  }

  // The status of a call with a message that no method can read.
  grpc::Status Call(const std::string& method, const std::string& token) {
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    grpc::CompletionQueue queue;
    const auto stream =
        grpc::GenericStub(channel_).PrepareCall(&context, "/" + method, &queue);
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
      return ok;
    };
    stream->StartCall(nullptr);
    wait();
    const grpc::Slice bytes("\xff");
    const grpc::ByteBuffer message(&bytes, 1);
    stream->WriteLast(message, grpc::WriteOptions(), nullptr);
    wait();
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    wait();
    grpc::Status status;
    stream->Finish(&status, nullptr);
    wait();
    return status;
  }

  const std::string audit_ = ::testing::TempDir() + "/audit.jsonl";
  SerialExecutor executor_{"test"};
  FakeVerifyEndpoint verifier_{&executor_, {}};
  Registry<MergePolicy> policies_{"strategy"};
  std::shared_ptr<prometheus::Registry> metrics_ =
      std::make_shared<prometheus::Registry>();
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<GenerateCalls> calls_;
  FakeDraftEngine draft_engine_;
  FakeVerifyEngine verify_engine_;
  std::unique_ptr<InferenceService> inference_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<PeerService> drafter_;
  std::unique_ptr<PeerService> verify_;
  std::unique_ptr<ServerRunner> runner_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(RoleMatrixTest, EachRoleDoesWhatItMayAndNothingElse) {
  for (const auto& [method, allowed] : Matrix()) {
    for (const auto& [role, token] : Tokens()) {
      const grpc::StatusCode code = Call(method, token).error_code();
      const bool is_known = role != "stranger" && role != "nobody";
      if (allowed.contains(role)) {
        EXPECT_NE(code, grpc::StatusCode::UNAUTHENTICATED) << method << role;
        EXPECT_NE(code, grpc::StatusCode::PERMISSION_DENIED) << method << role;
      } else {
        EXPECT_EQ(code, is_known ? grpc::StatusCode::PERMISSION_DENIED
                                 : grpc::StatusCode::UNAUTHENTICATED)
            << method << " " << role;
      }
    }
  }
}

TEST_F(RoleMatrixTest, NoMethodIsMissing) {
  for (const char* service : {"espalier.v1.Inference", "espalier.v1.Admin",
                              "espalier.v1.Drafter", "espalier.v1.Verifier"}) {
    const auto* about =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            service);
    ASSERT_NE(about, nullptr) << service;
    for (int i = 0; i < about->method_count(); ++i) {
      EXPECT_TRUE(Matrix().contains(
          absl::StrCat(service, "/", about->method(i)->name())))
          << about->method(i)->full_name();
    }
  }
}

TEST_F(RoleMatrixTest, EachCallOfAdminIsALineOfTheAudit) {
  const auto stub = v1::Admin::NewStub(channel_);
  const auto set = [&](const std::string& token, const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    v1::SetDrafterRequest request;
    request.set_name(name);
    request.set_weight(2);
    v1::DrafterSettings settings;
    return stub->SetDrafter(&context, request, &settings).error_code();
  };
  EXPECT_EQ(set(Tokens().at("operator"), "x"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(set(Tokens().at("client"), "x"),
            grpc::StatusCode::PERMISSION_DENIED);
  std::ifstream file(audit_);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["caller"], "o");
  EXPECT_EQ(lines[0]["method"], "SetDrafter");
  EXPECT_EQ(lines[0]["decision"], "allowed");
  EXPECT_EQ(lines[0]["wanted"]["weight"], 2);
  EXPECT_THAT(std::string(lines[1]["decision"]), HasSubstr("operator may"));
  EXPECT_THAT(std::string(lines[1]["peer"]), HasSubstr("127.0.0.1"));
}

}  // namespace

TEST(AuditLogTest, AFullDiskRefusesTheCall) {
  const auto full = AuditLog::Open("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  const absl::Status status = (*full)->Write({.method = "SetDrafter"});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(AuditLog::Open("/nonexistent/audit").ok());
}

TEST(AuditLogTest, RefusalsOfAFloodAreCounted) {
  const std::string path = ::testing::TempDir() + "/flood.jsonl";
  std::remove(path.c_str());
  const auto log = AuditLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE((*log)
                    ->Write({.method = "SetDrafter",
                             .decision = absl::UnauthenticatedError("x")})
                    .ok());
  }
  EXPECT_TRUE((*log)->Write({.method = "SetDrafter"}).ok());
  std::ifstream file(path);
  int64_t lines = 0;
  std::string last;
  for (std::string line; std::getline(file, line); ++lines) last = line;
  EXPECT_LT(lines, 500);
  const nlohmann::json entry = nlohmann::json::parse(last);
  EXPECT_EQ(entry["refusals_without_line"], 1001 - lines);
}

}  // namespace espalier::coordinator
