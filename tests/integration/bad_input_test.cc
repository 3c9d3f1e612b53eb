// A clear error each, with the right code, and the service goes on.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

using ::grpc::StatusCode;

std::string Binary(const std::string& name) {
  return absl::StrCat(ESPALIER_BIN_DIR, "/", name);
}

class BadRequestTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = new Cluster(
        {.model = CharModelFolder(), .drafters = LookupAndBigram()});
    cluster_->AwaitReady();
  }
  static void TearDownTestSuite() {
    EXPECT_TRUE(Generate(cluster_->stub(), CharRequest(0, 1)).status.ok())
        << "the service did not survive";
    delete cluster_;
    cluster_ = nullptr;
  }

  static void ExpectError(const v1::GenerateRequest& request, StatusCode code,
                          const std::string& message_part) {
    const grpc::Status status = Generate(cluster_->stub(), request).status;
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(message_part), std::string::npos)
        << "\"" << status.error_message() << "\" should name " << message_part;
  }

  static Cluster* cluster_;
};
Cluster* BadRequestTest::cluster_ = nullptr;

TEST_F(BadRequestTest, EachSenselessFieldIsNamed) {
  struct Case {
    std::string named;
    std::function<void(v1::GenerateRequest&)> spoil;
  };
  const std::vector<Case> cases = {
      {"temperature", [](auto& r) { r.set_temperature(-1); }},
      {"temperature", [](auto& r) { r.set_temperature(1e9f); }},
      {"temperature", [](auto& r) { r.set_temperature(0.0f / 0.0f); }},
      {"top_p", [](auto& r) { r.set_top_p(0); }},
      {"top_p", [](auto& r) { r.set_top_p(1.5f); }},
      {"top_k", [](auto& r) { r.set_top_k(3000000000u); }},
      {"max_tokens", [](auto& r) { r.set_max_tokens(0); }},
      {"prompt", [](auto& r) { r.set_prompt(""); }},
      {"prompt", [](auto& r) { r.set_prompt(std::string(100000, 'a')); }},
      {"token_ids: token",
       [](auto& r) { r.mutable_token_ids()->add_ids(1u << 30); }},
      {"token_ids: token",
       [](auto& r) { r.mutable_token_ids()->add_ids(4294967295u); }},
      {"input", [](auto& r) { r.clear_input(); }},
      {"chat",
       [](auto& r) {
         auto* message = r.mutable_chat()->add_messages();
         message->set_role("user");
         message->set_content("hello");
       }},
      {"request_id", [](auto& r) { r.set_request_id(std::string(129, 'x')); }},
      {"request_id", [](auto& r) { r.set_request_id("a\n[info] forged"); }},
      {"request_id", [](auto& r) { r.set_request_id(std::string("a\0b", 3)); }},
      {"stop_token_ids",
       [](auto& r) {
         for (int i = 0; i < 65; ++i) r.add_stop_token_ids(1);
       }},
      {"nobody",
       [](auto& r) { r.mutable_speculation()->add_drafters("nobody"); }},
      {"known: ",
       [](auto& r) { r.mutable_speculation()->set_strategy("magic"); }},
      {"walk", [](auto& r) { r.mutable_speculation()->set_rule("magic"); }},
      {"max_nodes",
       [](auto& r) { r.mutable_speculation()->set_max_nodes(1000000); }},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request = CharRequest(0, 1, 10);
    c.spoil(request);
    ExpectError(request, StatusCode::INVALID_ARGUMENT, c.named);
  }
}

// Returns the status of a call whose request is these bytes.
grpc::Status Send(const std::string& address, const std::string& method,
                  const std::string& bytes) {
  grpc::GenericStub stub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes);
  auto call =
      stub.PrepareUnaryCall(&context, "/espalier.v1.Inference/" + method,
                            grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(BadRequestTest, BytesThatAreNoRequestAreNamedAndNotLoggedRaw) {
  const std::string address = cluster_->Address("coordinator");
  struct Case {
    std::string method;
    std::string bytes;
    std::string named;
  };
  const std::vector<Case> cases = {
      {"Generate",
       "\x1a\x03"
       "ab\xff",
       "prompt: no valid UTF-8 at byte 2"},
      {"Generate", "\x2a\x06\x0a\x04\x12\x02x\xff",
       "chat.messages[0].content: no valid UTF-8 at byte 1"},
      {"Generate",
       "\x1a\x01"
       "a"
       "\x22\x03\x0a\x01\x05",
       "token_ids: is there beside prompt"},
      {"Generate", "\xff\xff", "malformed"},
      {"Abort", "\x0a\x01\xff", "request_id: no valid UTF-8 at byte 0"},
  };
  for (const Case& c : cases) {
    const grpc::Status status = Send(address, c.method, c.bytes);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << c.named;
    EXPECT_NE(status.error_message().find(c.named), std::string::npos)
        << status.error_message();
  }
  EXPECT_EQ(ReadFile(cluster_->Path("coordinator.log")).find("libprotobuf"),
            std::string::npos);
}

TEST_F(BadRequestTest, HugePromptsAreRefusedByTheirSize) {
  v1::GenerateRequest request = CharRequest(0, 1, 10);
  request.set_prompt(std::string(5 << 20, 'a'));
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "prompt: 5242880 bytes");
  request.set_prompt(std::string(20 << 20, 'a'));
  ExpectError(request, StatusCode::RESOURCE_EXHAUSTED, "larger than max");
  request.clear_input();
  for (int i = 0; i < 100'000; ++i) request.mutable_token_ids()->add_ids(1);
  ExpectError(request, StatusCode::INVALID_ARGUMENT, "token_ids: 100000");
}

TEST_F(BadRequestTest, WhatIsNotDoneAsAskedForIsAWarning) {
  v1::GenerateRequest request = CharRequest(0, 1, 1'000'000);
  request.set_ignore_eos(true);
  const Generated generated = Generate(cluster_->stub(), request);
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  ASSERT_EQ(generated.summary.warnings_size(), 1);
  EXPECT_NE(generated.summary.warnings(0).find("max_tokens: 1000000"),
            std::string::npos)
      << generated.summary.warnings(0);
}

TEST_F(BadRequestTest, AnUnknownModelIsNotFound) {
  v1::GenerateRequest request = CharRequest(0, 1, 10);
  request.set_model("gpt-17");
  ExpectError(request, StatusCode::NOT_FOUND, "gpt-17");
}

TEST_F(BadRequestTest, AbortOfNothingIsNotFound) {
  grpc::ClientContext context;
  v1::AbortRequest request;
  request.set_request_id("never seen");
  v1::AbortResponse response;
  EXPECT_EQ(cluster_->stub().Abort(&context, request, &response).error_code(),
            StatusCode::NOT_FOUND);
}

TEST(BadDrafterTest, AnotherVocabularyIsRefusedWithTheReason) {
  // A copy of the model whose tokenizer has one token less.
  const ScratchFolder scratch;
  const std::string folder = scratch / "model";
  std::filesystem::copy(CharModelFolder(), folder);
  std::string tokenizer = ReadFile(folder + "/tokenizer.json");
  const size_t last = tokenizer.rfind("\"z\"");
  ASSERT_NE(last, std::string::npos);
  tokenizer.replace(last, 3, "\"#\"");
  WriteFile(folder + "/tokenizer.json", tokenizer);

  Cluster cluster({.model = CharModelFolder(),
                   .drafters = {{.name = "lookup", .type = "prompt_lookup"}}});
  cluster.AwaitReady();
  cluster.Kill("lookup");
  const std::string config = cluster.Path("lookup.textproto");
  std::string text = ReadFile(config);
  const size_t at = text.find(CharModelFolder());
  text.replace(at, CharModelFolder().size(), folder);
  WriteFile(config, text);
  cluster.Start("lookup");

  v1::PeerInfo peer;
  for (int i = 0; i < 3000 && peer.state() != v1::PEER_STATE_REFUSED; ++i) {
    grpc::ClientContext context;
    v1::GetServerInfoResponse info;
    ASSERT_TRUE(cluster.stub().GetServerInfo(&context, {}, &info).ok());
    peer = info.drafters(0);
  }
  EXPECT_EQ(peer.state(), v1::PEER_STATE_REFUSED);
  EXPECT_NE(peer.detail().find("tokenizer"), std::string::npos)
      << peer.detail();
  EXPECT_TRUE(Generate(cluster.stub(), CharRequest(0, 1)).status.ok());
}

class BadStartTest : public ::testing::Test {
 protected:
  // Starts `program` with a configuration that cannot work.
  void ExpectRefusal(const std::string& program, const std::string& config,
                     int status, const std::string& message_part) const {
    const std::string path = scratch_ / "bad.textproto";
    WriteFile(path, config);
    const Finished finished =
        RunToEnd({Binary(program), "--config", path}, scratch_ / "bad.log");
    EXPECT_EQ(finished.status, status) << finished.output;
    EXPECT_NE(finished.output.find(message_part), std::string::npos)
        << finished.output;
  }

  std::string Listen() const {
    return absl::StrCat("server { listen: \"unix:", scratch_ / "bad.sock",
                        "\" }\n");
  }

  // Makes a copy of the character model to spoil.
  std::string CopyOfModel() const {
    const std::string folder = scratch_ / "model";
    std::filesystem::copy(CharModelFolder(), folder);
    return folder;
  }

  const ScratchFolder scratch_;
};

TEST_F(BadStartTest, MissingModel) {
  ExpectRefusal("espalier-verifier",
                Listen() + "engine { model: \"/nowhere\" }", 2, "/nowhere");
}

TEST_F(BadStartTest, UnknownField) {
  ExpectRefusal("espalier-verifier", "sevrer {}", 2, "sevrer");
}

TEST_F(BadStartTest, UnknownDrafterType) {
  ExpectRefusal("espalier-drafter",
                absl::StrCat(Listen(),
                             "engine { name: \"x\" type: \"eagel\" "
                             "model: \"",
                             CharModelFolder(), "\" }"),
                2, "prompt_lookup");
}

TEST_F(BadStartTest, UnknownDrafterOption) {
  ExpectRefusal("espalier-drafter",
                absl::StrCat(Listen(),
                             "engine { name: \"x\" type: \"ngram\" "
                             "model: \"",
                             CharModelFolder(),
                             "\" options { key: \"tabel\" value: \"\" } }"),
                2, "tabel");
}

TEST_F(BadStartTest, TruncatedWeights) {
  const std::string folder = CopyOfModel();
  std::filesystem::resize_file(folder + "/model.safetensors", 5000);
  ExpectRefusal("espalier-verifier",
                absl::StrCat(Listen(), "engine { model: \"", folder, "\" }"), 2,
                "model.safetensors");
}

TEST_F(BadStartTest, FewerLayersThanTheWeightsHave) {
  const std::string folder = CopyOfModel();
  std::string config = ReadFile(folder + "/config.json");
  const size_t field = config.find("\"n_layer\"");
  ASSERT_NE(field, std::string::npos);
  const size_t number = config.find_first_of("0123456789", field);
  config[number] -= 1;
  WriteFile(folder + "/config.json", config);
  ExpectRefusal("espalier-verifier",
                absl::StrCat(Listen(), "engine { model: \"", folder, "\" }"), 2,
                "n_layer");
}

TEST_F(BadStartTest, BrokenTokenizer) {
  const std::string folder = CopyOfModel();
  std::filesystem::resize_file(folder + "/tokenizer.json", 300);
  ExpectRefusal("espalier-verifier",
                absl::StrCat(Listen(), "engine { model: \"", folder, "\" }"), 2,
                "tokenizer.json");
}

TEST_F(BadStartTest, AddressInUse) {
  Cluster cluster({.model = CharModelFolder(), .drafters = {}});
  cluster.AwaitReady();
  ExpectRefusal(
      "espalier-verifier",
      absl::StrCat("server { listen: \"", cluster.Address("verifier"),
                   "\" } engine { model: \"", CharModelFolder(), "\" }"),
      1, "verifier.sock");
}

TEST_F(BadStartTest, UnknownFlagAndBadSet) {
  for (const char* program :
       {"espalier-verifier", "espalier-drafter", "espalier-coordinator"}) {
    const std::string log = scratch_ / "flags.log";
    EXPECT_EQ(RunToEnd({Binary(program), "--frobnicate"}, log).status, 2);
    const Finished bad =
        RunToEnd({Binary(program), "--set", "server.lisen=x"}, log);
    EXPECT_EQ(bad.status, 2);
    EXPECT_NE(bad.output.find("lisen"), std::string::npos) << bad.output;
  }
}

}  // namespace
}  // namespace espalier::testing
