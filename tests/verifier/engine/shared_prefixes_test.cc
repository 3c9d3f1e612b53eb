#include "verifier/engine/shared_prefixes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/scripted_language_model.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;

// Blocks of two tokens.
class SharedPrefixesTest : public ::testing::Test {
 protected:
  Session New(std::vector<TokenId> tokens) {
    Session session;
    session.cache = model_.NewSequence();
    session.tokens = std::move(tokens);
    session.job = std::make_unique<Job>();
    return session;
  }
  // Caches the tokens before the root.
  void Compute(Session& session) {
    const std::vector<TokenId> tokens(session.tokens.begin(),
                                      session.tokens.end() - 1);
    ASSERT_TRUE(Prefill(model_, session.cache, tokens, 8).ok());
  }

  // Returns a session of five tokens that has offered its K/V.
  Session Offered() {
    Session session = New({1, 2, 3, 4, 5});
    Compute(session);
    prefixes_.Share(session);
    return session;
  }

  prometheus::Registry registry_;
  ScriptedLanguageModel model_{{.block_tokens = 2, .shares_kv = true}};
  VerifierMetrics metrics_{registry_, "target", {}};
  SharedPrefixes prefixes_{
      {.enabled = true, .max_feature_bytes = 1 << 20}, model_, metrics_};
};

TEST_F(SharedPrefixesTest, ASessionTakesWhatAnotherOffered) {
  Session first = Offered();
  Session second = New({1, 2, 3, 9, 5});
  prefixes_.Share(second);
  EXPECT_EQ(model_.Length(second.cache), 2);
  EXPECT_EQ(second.job->cached_tokens, 2);
  EXPECT_EQ(metrics_.prefix_hits.Value(), 2);
}

TEST_F(SharedPrefixesTest, OnlyUnderTheSameSalt) {
  Session first = Offered();
  Session second = New({1, 2, 3, 4, 5});
  second.salt = "tenant";
  prefixes_.Share(second);
  EXPECT_EQ(model_.Length(second.cache), 0);
}

// Without its features a head would draft badly for the whole answer.
TEST_F(SharedPrefixesTest, TakesNoFurtherThanItsFeatures) {
  Session first = Offered();
  first.taps = {0};
  const int64_t width = ScriptedLanguageModel::kHiddenSize;
  first.features = {.first_position = 0, .width = width};
  first.features.data.assign(2 * width, 7);
  prefixes_.OfferFeatures(first);
  Session second = New({1, 2, 3, 4, 5});
  second.taps = {0};
  second.features = {.first_position = 0, .width = width};
  prefixes_.Share(second);
  EXPECT_EQ(model_.Length(second.cache), 2);
  EXPECT_EQ(second.features.end_position(), 2);
}

// They need the logits of every position.
TEST_F(SharedPrefixesTest, TakesNoFurtherThanItsLogprobs) {
  Session first = Offered();
  Session second = New({1, 2, 3, 4, 5});
  second.job->request.logprobs.prompt = 0;
  prefixes_.WantLogprobs(second.job->request.logprobs, second);
  prefixes_.Share(second);
  EXPECT_EQ(model_.Length(second.cache), 0);
}

TEST_F(SharedPrefixesTest, OffNothingIsShared) {
  SharedPrefixes off({.enabled = false}, model_, metrics_);
  EXPECT_FALSE(off.enabled());
  Session first = New({1, 2, 3, 4, 5});
  Compute(first);
  off.Share(first);
  Session second = New({1, 2, 3, 4, 5});
  off.Share(second);
  EXPECT_EQ(model_.Length(second.cache), 0);
  EXPECT_EQ(off.RoomOfOthers(second), 0);
}

}  // namespace
}  // namespace espalier::verifier
