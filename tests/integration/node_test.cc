// A node process on the emulated device, with a remote head beside it: clients
// see the target's text, also when the node dies, and only the remote head gets
// features.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kTokens = 24;

std::string ModelFolder() {
  static const std::string* const folder = [] {
    const std::string path = NewFolder() + "/wide";
    WriteWideLlama(path);
    WriteWideEagle(EagleLayouts().back(), path + "/heads/eagle");
    WriteTinyDflash(MakeTinyDflash(200, kWideDflash), path + "/heads/block");
    return new std::string(path);
  }();
  return *folder;
}

std::vector<DrafterSpec> Drafters() {
  const std::string heads = ModelFolder() + "/heads";
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
           .options = {{"model", heads + "/eagle"}, {"device", "emulated"}}}};
}

v1::GenerateRequest Request(float temperature,
                            const std::vector<std::string>& drafters) {
  v1::GenerateRequest request;
  request.set_prompt("Once upon a time");
  request.set_temperature(temperature);
  request.set_seed(3);
  request.set_max_tokens(kTokens);
  request.set_ignore_eos(true);
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  speculation.set_strategy("union");
  speculation.set_max_nodes(8);
  for (const std::string& name : drafters) speculation.add_drafters(name);
  return request;
}

class NodeTest : public ::testing::Test {
 protected:
  NodeTest()
      : cluster_({.model = ModelFolder(),
                  .drafters = Drafters(),
                  .coordinator_sets = {kWaitForDrafters},
                  .verifier_sets = {"engine.device=emulated",
                                    "engine.max_tree_nodes=15"}}) {
    cluster_.AwaitReady();
  }

  Generated Run(const v1::GenerateRequest& request) {
    Generated out = Generate(cluster_.stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    EXPECT_EQ(out.token_ids.size(), kTokens);
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

TEST_F(NodeTest, FeaturesAreSentToTheRemoteHeadAlone) {
  for (float temperature : {0.0f, 0.8f}) {
    const Generated plain = Run(Plain(Request(temperature, {})));
    for (const char* name : {"eagle", "block"}) {
      ExpectDraftsAndText(Request(temperature, {name}), plain.token_ids);
    }
  }
  EXPECT_THAT(cluster_.Metrics("verifier"),
              HasSubstr("\nespalier_verifier_feature_bytes_total"));
  EXPECT_THAT(cluster_.Metrics("verifier"),
              ::testing::ContainsRegex(
                  "\nespalier_verifier_feature_bytes_total[^\n]* 0\n"));
  const Generated plain = Run(Plain(Request(0.8f, {})));
  ExpectDraftsAndText(Request(0.8f, {"eagle", "block", "remote"}),
                      plain.token_ids);
  const std::string metrics = cluster_.Metrics("coordinator");
  EXPECT_THAT(metrics, HasSubstr(SentTo("eagle") + "0\n"));
  EXPECT_THAT(metrics, HasSubstr(SentTo("block") + "0\n"));
  EXPECT_THAT(metrics, HasSubstr(SentTo("remote")));
  EXPECT_THAT(metrics, ::testing::Not(HasSubstr(SentTo("remote") + "0\n")));
}

// The first message comes in the middle of the text.
TEST_F(NodeTest, TheDeathOfTheNodeChangesNoText) {
  const v1::GenerateRequest request =
      Request(0.8f, {"eagle", "block", "remote"});
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
  ExpectDraftsAndText(Request(0.8f, {"eagle", "block"}), plain.token_ids);
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
  const std::string model = "verifier.engine.model=" + ModelFolder();
  const Finished unknown = run({"drafter.engine.name=x"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("drafter"));
  const Finished unnamed = run({model, "drafters.0.engine.type=eagle"});
  EXPECT_EQ(unnamed.status, 2);
  EXPECT_THAT(unnamed.output, HasSubstr("engine.name"));
  const Finished device =
      run({model, "verifier.engine.device=tpu", "drafters.0.engine.type=eagle",
           "drafters.0.engine.name=x"});
  EXPECT_EQ(device.status, 2);
  EXPECT_THAT(device.output, HasSubstr("unknown device \"tpu\""));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier::testing
