#include "common/config/load_config.h"

#include <fstream>
#include <string>

#include "espalier/v1/config.pb.h"
#include "espalier/v1/inference.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/load_config_test." +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path) << text;
  return path;
}

// Returns the error message of one override.
std::string SetError(const std::string& override_text) {
  v1::CoordinatorConfig config;
  config.add_drafters()->set_name("first");
  absl::Status status = LoadConfig("", {override_text}, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(LoadConfig, OverridesWinOverTheFile) {
  const std::string file = WriteFile(R"(
    # a comment
    server { listen: "unix:/a" drain_seconds: 3 }
    engine { name: "lookup" options { key: "table" value: "/t" } }
  )");
  v1::DrafterConfig config;
  ASSERT_TRUE(
      LoadConfig(file,
                 {"server.drain_seconds=7", "engine.type=ngram",
                  "engine.options.table=/a=b", "server.reflection=false",
                  "engine.options.dotted.key=1"},
                 config)
          .ok());
  EXPECT_THAT(config.server().listen(), ElementsAre("unix:/a"));
  EXPECT_EQ(config.server().drain_seconds(), 7);
  EXPECT_TRUE(config.server().has_reflection());
  EXPECT_FALSE(config.server().reflection());
  EXPECT_EQ(config.engine().name(), "lookup");
  EXPECT_EQ(config.engine().type(), "ngram");
  EXPECT_EQ(config.engine().options_size(), 2);
  EXPECT_EQ(config.engine().options().at("table"), "/a=b");
  EXPECT_EQ(config.engine().options().at("dotted.key"), "1");
}

TEST(LoadConfig, ListsGrowByIndexAndAreReplacedWithoutOne) {
  v1::CoordinatorConfig config;
  ASSERT_TRUE(
      LoadConfig("",
                 {"drafters.0.name=a", "drafters.1.name=b",
                  "drafters.0.address=unix:/a", "server.listen=x",
                  "server.listen=y", "server.listen.1=z", "server.listen.0=w"},
                 config)
          .ok());
  ASSERT_EQ(config.drafters_size(), 2);
  EXPECT_EQ(config.drafters(0).address(), "unix:/a");
  EXPECT_EQ(config.drafters(1).name(), "b");
  EXPECT_THAT(config.server().listen(), ElementsAre("w", "z"));
}

TEST(LoadConfig, SetsEveryKindOfScalar) {
  v1::GenerateRequest request;
  ASSERT_TRUE(LoadConfig("",
                         {"temperature=0.5", "seed=18446744073709551615",
                          "ignore_eos=true", "prompt="},
                         request)
                  .ok());
  EXPECT_EQ(request.temperature(), 0.5f);
  EXPECT_EQ(request.seed(), ~uint64_t{0});
  EXPECT_TRUE(request.ignore_eos());
  EXPECT_TRUE(request.has_prompt());

  v1::GenerateResponse response;
  ASSERT_TRUE(LoadConfig("",
                         {"summary.finish_reason=FINISH_REASON_STOP",
                          "summary.spec_stats.mean_acceptance_length=2.5"},
                         response)
                  .ok());
  EXPECT_EQ(response.summary().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(response.summary().spec_stats().mean_acceptance_length(), 2.5);

  v1::PeerInfo peer;
  EXPECT_THAT(LoadConfig("", {"state=READY"}, peer).message(),
              HasSubstr("PEER_STATE_READY"));
}

TEST(LoadConfig, ErrorInTheFileNamesPlaceAndKnownFields) {
  const std::string file = WriteFile("server {\n  lisen: \"x\"\n}\n");
  v1::VerifierConfig config;
  absl::Status status = LoadConfig(file, {}, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr(file + ":2:"), HasSubstr("lisen"),
                             HasSubstr("Known: listen, metrics_listen")));
}

TEST(LoadConfig, RefusesGarbage) {
  v1::VerifierConfig config;
  for (const char* text : {"server {", "}", "\x01\x02\xff", "server: 3",
                           "engine { threads: -1 }", "engine { threads: x }"}) {
    const std::string file = WriteFile(text);
    absl::Status status = LoadConfig(file, {}, config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file)) << text;
  }
}

TEST(LoadConfig, NamesAFileThatCannotBeRead) {
  v1::VerifierConfig config;
  absl::Status missing = LoadConfig("/nonexistent/config", {}, config);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nonexistent/config"));
  EXPECT_FALSE(LoadConfig(testing::TempDir(), {}, config).ok());
}

TEST(LoadConfig, BadOverridesNameThePathAndWhatIsKnown) {
  EXPECT_THAT(SetError("server"), HasSubstr("is not path=value"));
  EXPECT_THAT(SetError("=1"), HasSubstr("known: server, core, model"));
  EXPECT_THAT(SetError("servr.listen=1"),
              testing::AllOf(HasSubstr("servr.listen: unknown field \"servr\""),
                             HasSubstr("known: server, core")));
  EXPECT_THAT(SetError("core.max_nodes.x=1"), HasSubstr("single value"));
  EXPECT_THAT(SetError("core=1"), HasSubstr("set one of: max_running"));
  EXPECT_THAT(SetError("drafters=1"), HasSubstr("set one of: name, address"));
  EXPECT_THAT(SetError("drafters.0=1"), HasSubstr("known: name, address"));
  EXPECT_THAT(SetError("drafters.2.name=x"), HasSubstr("not in 0 .. 1"));
  EXPECT_THAT(SetError("drafters.-1.name=x"), HasSubstr("not in 0 .. 1"));
  EXPECT_THAT(SetError("drafters.x.name=x"), HasSubstr("not in 0 .. 1"));
  EXPECT_THAT(SetError("server.listen.0.x=1"), HasSubstr("single value"));
  EXPECT_THAT(SetError("core.max_nodes=-1"), HasSubstr("not an integer"));
  EXPECT_THAT(SetError("core.max_nodes=4294967296"),
              HasSubstr("not an integer of 32 bits"));
  EXPECT_THAT(SetError("server.reflection=maybe"), HasSubstr("neither true"));
}

TEST(LoadConfig, BadMapAndFloatValuesAreRefused) {
  v1::DrafterConfig drafter;
  EXPECT_THAT(
      std::string(LoadConfig("", {"engine.options=x"}, drafter).message()),
      HasSubstr("engine.options.KEY"));
  v1::GenerateRequest request;
  EXPECT_THAT(
      std::string(LoadConfig("", {"temperature=nan"}, request).message()),
      HasSubstr("not a finite number"));
}

}  // namespace
}  // namespace espalier
