// A node process on the emulated device, with a head in a process of its own on
// that device and one on the CPU: clients see the target's text, also when the
// node dies, and only the head on the CPU gets features over gRPC.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/wide_model.h"

namespace espalier::testing::node_test {
namespace {

using ::testing::HasSubstr;

std::vector<DrafterSpec> Drafters() {
  const std::string heads = WideModelFolder() + "/drafters";
  return {{.name = "eagle",
           .type = "eagle",
           .options = {{"model", heads + "/eagle"}},
           .in_node = true},
          {.name = "block",
           .type = "dflash",
           .options = {{"model", heads + "/block"}},
           .in_node = true},
          {.name = "remote",
           .type = "eagle",
           .options = {{"model", heads + "/eagle"}}},
          {.name = "apart",
           .type = "eagle",
           .options = {{"model", heads + "/eagle"}, {"device", "emulated"}}}};
}

class NodeTest : public ::testing::Test {
 protected:
  NodeTest()
      : cluster_({.model = WideModelFolder(),
                  .drafters = Drafters(),
                  .coordinator_sets = {kWaitForDrafters},
                  .verifier_sets = {"engine.device=emulated",
                                    "engine.max_tree_nodes=15"}}) {
    cluster_.AwaitReady();
  }

  Generated Run(const v1::GenerateRequest& request) {
    Generated out = Generate(cluster_.stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    EXPECT_EQ(out.token_ids.size(), kWideTokens);
    return out;
  }

  // Runs a request with each drafter alone.
  void ExpectDraftsAndText(const v1::GenerateRequest& request,
                           const std::vector<uint32_t>& text) {
    const Generated out = Run(request);
    EXPECT_EQ(out.token_ids, text);
    EXPECT_GT(out.summary.spec_stats().num_draft_tokens(), 0);
    for (const auto& drafter : out.summary.spec_stats().drafters()) {
      EXPECT_EQ(drafter.errors(), 0u) << drafter.name();
    }
  }

  std::string SentTo(const std::string& drafter) const {
    return absl::StrCat("espalier_drafter_feature_bytes_total{drafter=\"",
                        drafter, "\"} ");
  }

  Cluster cluster_;
};

TEST_F(NodeTest, NightlyFeaturesAreSentToTheHeadOnTheCpuAlone) {
  for (float temperature : {0.0f, 0.8f}) {
    const Generated plain = Run(Plain(WideRequest(temperature, {})));
    for (const char* name : {"eagle", "block", "apart"}) {
      ExpectDraftsAndText(WideRequest(temperature, {name}), plain.token_ids);
    }
  }
  EXPECT_THAT(cluster_.Metrics("verifier"),
              HasSubstr("\nespalier_verifier_feature_bytes_total"));
  EXPECT_THAT(cluster_.Metrics("verifier"),
              ::testing::ContainsRegex(
                  "\nespalier_verifier_feature_bytes_total[^\n]* 0\n"));
  const Generated plain = Run(Plain(WideRequest(0.8f, {})));
  ExpectDraftsAndText(WideRequest(0.8f, {"eagle", "block", "remote", "apart"}),
                      plain.token_ids);
  const std::string metrics = cluster_.Metrics("coordinator");
  for (const char* name : {"eagle", "block", "apart"}) {
    EXPECT_THAT(metrics, HasSubstr(SentTo(name) + "0\n"));
  }
  EXPECT_THAT(metrics, HasSubstr(SentTo("remote")));
  EXPECT_THAT(metrics, ::testing::Not(HasSubstr(SentTo("remote") + "0\n")));
}

// The first message comes in the middle of the text.
TEST_F(NodeTest, TheDeathOfTheNodeChangesNoText) {
  const v1::GenerateRequest request =
      WideRequest(0.8f, {"eagle", "block", "remote", "apart"});
  const Generated plain = Run(Plain(request));
  bool is_first = true;
  const Generated out =
      Generate(cluster_.stub(), request,
               [&](const v1::GenerateResponse&, grpc::ClientContext&) {
                 if (!std::exchange(is_first, false)) return;
                 cluster_.Kill("verifier");
                 cluster_.Start("verifier");
               });
  EXPECT_TRUE(out.status.ok()) << out.status.error_message();
  EXPECT_EQ(out.token_ids, plain.token_ids);
  cluster_.AwaitReady();
  ExpectDraftsAndText(WideRequest(0.8f, {"eagle", "block", "apart"}),
                      plain.token_ids);
}

TEST_F(NodeTest, EndsAtASignal) {
  cluster_.Signal("verifier", 15);
  EXPECT_EQ(cluster_.process("verifier").Wait(), 0);
}

TEST(NodeConfigTest, NamesTheFieldThatIsWrong) {
  const std::string folder = NewFolder();
  const auto run = [&](const std::vector<std::string>& sets) {
    std::vector<std::string> args = {
        absl::StrCat(ESPALIER_BIN_DIR, "/espalier-node")};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return RunToEnd(args, folder + "/log");
  };
  const std::string listen = absl::StrCat("=unix:", folder, "/socket");
  const std::string verifier = "verifier.server.listen" + listen;
  const std::string drafter = "drafters.0.server.listen" + listen;
  const std::string model = "verifier.engine.model=" + WideModelFolder();
  const Finished unknown = run({"drafter.engine.name=x"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("drafter"));
  const Finished nowhere = run({model, verifier, "drafters.0.engine.name=x"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.output, HasSubstr("drafters.0.server.listen is empty"));
  const Finished unnamed =
      run({model, verifier, drafter, "drafters.0.engine.type=eagle"});
  EXPECT_EQ(unnamed.status, 2);
  EXPECT_THAT(unnamed.output, HasSubstr("engine.name"));
  const Finished device =
      run({model, verifier, drafter, "verifier.engine.device=tpu",
           "drafters.0.engine.type=eagle", "drafters.0.engine.name=x"});
  EXPECT_EQ(device.status, 2);
  EXPECT_THAT(device.output, HasSubstr("unknown device \"tpu\""));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier::testing::node_test
