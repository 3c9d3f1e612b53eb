// Drafters in the coordinator's process, and what they learn across requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/char_model.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process.h"

namespace espalier::testing {
namespace {

DrafterSpec Suffix(const std::string& file = "") {
  DrafterSpec suffix = {.name = "suffix",
                        .type = "suffix",
                        .options = {{"earlier_answers", "true"}},
                        .in_coordinator = true};
  if (!file.empty()) suffix.options["file"] = file;
  return suffix;
}

DrafterSpec Recycle() {
  return {.name = "recycle", .type = "recycle", .in_coordinator = true};
}

// Drafts with every node, of one tenant.
v1::GenerateRequest Asked(float temperature, const std::string& salt,
                          uint64_t seed = 1) {
  v1::GenerateRequest request = CharRequest(temperature, seed);
  request.set_cache_salt(salt);
  return request;
}

class InProcessTest : public ::testing::Test {
 protected:
  double TauOf(Cluster& cluster, const v1::GenerateRequest& request) {
    const Generated out = Generate(cluster.stub(), request);
    EXPECT_TRUE(out.status.ok()) << out.status.error_message();
    EXPECT_EQ(out.token_ids.size(), 160u);
    return out.summary.spec_stats().mean_acceptance_length();
  }
};

// A tenant's second answer is that of the first. For another tenant it is new.
TEST_F(InProcessTest, EarlierAnswersHelpTheirTenantAlone) {
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = {Suffix()},
                   .coordinator_sets = {kWaitForDrafters}});
  cluster.AwaitReady();
  const double first = TauOf(cluster, Asked(0, "a"));
  const double again = TauOf(cluster, Asked(0, "a"));
  EXPECT_GT(again, first + 1);
  EXPECT_DOUBLE_EQ(TauOf(cluster, Asked(0, "b")), first);
  EXPECT_DOUBLE_EQ(TauOf(cluster, Asked(0, "c")), first);
}

TEST_F(InProcessTest, TheTargetsRanksHelpTheirTenantAlone) {
  for (float temperature : {0.0f, 1.0f}) {
    Cluster cluster({.model = CharModelFolder(),
                     .drafters = {Recycle()},
                     .coordinator_sets = {kWaitForDrafters}});
    cluster.AwaitReady();
    const double first = TauOf(cluster, Asked(temperature, "a"));
    EXPECT_GT(first, 1.2);
    for (uint64_t seed : {2, 3, 4}) {
      TauOf(cluster, Asked(temperature, "a", seed));
    }
    EXPECT_DOUBLE_EQ(TauOf(cluster, Asked(temperature, "b")), first);
  }
}

TEST_F(InProcessTest, SavedAnswersOutliveTheCoordinator) {
  const ScratchFolder scratch;
  const std::string file = scratch / "answers";
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = {Suffix(file)},
                   .coordinator_sets = {kWaitForDrafters}});
  cluster.AwaitReady();
  const double first = TauOf(cluster, Asked(0, "a"));
  cluster.Signal("coordinator", SIGTERM);
  ASSERT_EQ(cluster.process("coordinator").Wait(), 0);
  ASSERT_TRUE(std::filesystem::exists(file));
  cluster.Start("coordinator");
  cluster.AwaitReady();
  EXPECT_GT(TauOf(cluster, Asked(0, "a")), first + 1);
}

// The coordinator describes them like services.
TEST_F(InProcessTest, AreListedWithTheirTypes) {
  Cluster cluster({.model = CharModelFolder(),
                   .drafters = {Suffix(), LookupAndBigram()[1], Recycle()}});
  cluster.AwaitReady();
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(cluster.stub().GetServerInfo(&context, {}, &info).ok());
  ASSERT_EQ(info.drafters_size(), 3);
  EXPECT_EQ(info.drafters(0).name(), "suffix");
  EXPECT_EQ(info.drafters(0).detail(), "suffix");
  EXPECT_EQ(info.drafters(0).address(), "");
  EXPECT_EQ(info.drafters(1).name(), "bigram");
  EXPECT_EQ(info.drafters(2).detail(), "recycle");
}

class BadInProcessTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& drafter, const std::string& message) {
    const ScratchFolder scratch;
    const std::string config = scratch / "coordinator.textproto";
    WriteFile(config, absl::StrCat("model: \"", CharModelFolder(),
                                   "\" verifier: \"unix:/nowhere\" ",
                                   "server { listen: \"unix:",
                                   scratch / "c.sock", "\" } ", drafter));
    const Finished finished =
        RunToEnd({ESPALIER_BIN_DIR "/espalier-coordinator", "--config", config},
                 scratch / "out");
    EXPECT_EQ(finished.status, 2) << finished.output;
    EXPECT_THAT(finished.output, ::testing::HasSubstr(message));
  }
};

TEST_F(BadInProcessTest, ANetworkIsNotForTheCoordinator) {
  ExpectRefused("drafters { name: \"x\" type: \"eagle\" }",
                "drafters.0: unknown drafter type in this process \"eagle\"; "
                "known: grammar, ngram, prompt_lookup, recycle, suffix");
}

TEST_F(BadInProcessTest, AnAddressOrAType) {
  ExpectRefused(
      "drafters { name: \"x\" type: \"suffix\" address: \"unix:/x\" }",
      "drafters.0: a drafter has an address, or a type");
  ExpectRefused("drafters { name: \"x\" }",
                "drafters.0: a name is needed, and an address or a type");
  ExpectRefused(
      "drafters { name: \"x\" address: \"unix:/x\" "
      "options { key: \"width\" value: \"1\" } }",
      "drafters.0.options: a drafter with an address has its own");
}

TEST_F(BadInProcessTest, OptionsAreChecked) {
  ExpectRefused(
      "drafters { name: \"x\" type: \"suffix\" "
      "options { key: \"fiel\" value: \"1\" } }",
      "drafters.0: drafter suffix: unknown option \"fiel\"");
}

}  // namespace
}  // namespace espalier::testing
