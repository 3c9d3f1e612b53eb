// A clear error each, with the right code, and the service goes on.

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

// A folder that goes with the test.
class ScratchFolder {
 public:
  ScratchFolder() : path_(NewFolder()) {}
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  const std::string path_;
};

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
      {"token", [](auto& r) { r.mutable_token_ids()->add_ids(1u << 30); }},
      {"token", [](auto& r) { r.mutable_token_ids()->add_ids(4294967295u); }},
      {"input", [](auto& r) { r.clear_input(); }},
      {"chat",
       [](auto& r) {
         auto* message = r.mutable_chat()->add_messages();
         message->set_role("user");
         message->set_content("hello");
       }},
      {"request_id", [](auto& r) { r.set_request_id(std::string(129, 'x')); }},
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

  // A copy of the character model to spoil.
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
