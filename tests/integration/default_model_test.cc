// The quick start's model, where set-up has put it: real weights, whose logits
// have near-ties that the character model lacks.

#include "tests/integration/default_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace espalier::testing {
namespace {

DrafterSpec Shipped(const std::string& name, const std::string& type) {
  const std::string folder =
      absl::StrCat(DefaultModelFolder(), "/drafters/", name);
  return {.name = name, .type = type, .options = {{"model", folder}}};
}

class DefaultModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasDefaultModel()) {
      GTEST_SKIP() << "no default model: run deploy/setup.sh";
    }
    cluster_.emplace(Cluster::Options{
        .model = DefaultModelFolder(),
        .drafters = {{.name = "lookup", .type = "prompt_lookup"},
                     Shipped("chat", "eagle"),
                     Shipped("math", "eagle"),
                     Shipped("block", "dflash")},
        .coordinator_sets = {kWaitForDrafters}});
    cluster_->AwaitReady();
  }

  Generated Ask(const std::string& question, float temperature,
                const std::function<void(v1::SpeculationOptions&)>& set) {
    v1::GenerateRequest request;
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content(question);
    request.set_temperature(temperature);
    request.set_seed(4);
    request.set_max_tokens(32);
    set(*request.mutable_speculation());
    Generated generated = Generate(cluster_->stub(), request);
    EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
    return generated;
  }

  std::optional<Cluster> cluster_;
};

TEST_F(DefaultModelTest, NightlySpeculationDoesNotChangeAChatAnswer) {
  for (const char* question :
       {"Repeat after me: one two three four, one two three four.",
        "Name three rivers of Europe."}) {
    for (float temperature : {0.0f, 1.0f}) {
      const Generated plain =
          Ask(question, temperature, [](auto& s) { s.set_enabled(false); });
      EXPECT_FALSE(plain.text.empty());
      for (const char* strategy : {"budgeted", "union", "disjoint", "route"}) {
        const Generated drafted = Ask(
            question, temperature, [&](auto& s) { s.set_strategy(strategy); });
        EXPECT_EQ(drafted.token_ids, plain.token_ids)
            << question << " at temperature " << temperature << " by "
            << strategy;
      }
    }
  }
}

// Far less than what the model cards say: a drafter that is fed wrong states,
// or predicts other noise than the verifier's, does not reach it.
TEST_F(DefaultModelTest, EveryShippedDrafterIsOftenRight) {
  for (const char* name : {"chat", "math", "block"}) {
    for (float temperature : {0.0f, 1.0f}) {
      const Generated drafted = Ask("What is 12 times 7? Explain it to me.",
                                    temperature, [&](auto& s) {
                                      s.add_drafters(name);
                                      s.set_max_nodes(16);
                                    });
      const v1::SpecStats& stats = drafted.summary.spec_stats();
      EXPECT_GT(2 * stats.num_accepted_draft_tokens(), stats.num_spec_steps())
          << name << " at temperature " << temperature;
    }
  }
}

}  // namespace
}  // namespace espalier::testing
