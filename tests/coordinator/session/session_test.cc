#include "coordinator/session/session.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/speculation/prefix_hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;

Session MakeSession(int64_t max_tokens = 4) {
  return Session({.coordinator_epoch = 1, .number = 2},
                 {.prompt = {10, 11, 12},
                  .sampling = {.seed = 5},
                  .max_tokens = max_tokens,
                  .stop_token_ids = {8, 7}});
}

TEST(SessionTest, UpdateCarriesOnlyWhatThePeerLacks) {
  Session session = MakeSession();
  session.Commit({20, 21});
  const SequenceUpdate update = session.UpdateFrom(3, 9);
  EXPECT_EQ(update.sequence, session.id());
  EXPECT_EQ(update.round, 9u);
  EXPECT_EQ(update.base_length, 3);
  EXPECT_EQ(update.prefix_hash, PrefixHash({10, 11, 12}));
  EXPECT_THAT(update.new_tokens, ElementsAre(20, 21));
  EXPECT_EQ(update.sampling.seed, 5u);
  EXPECT_EQ(update.committed_length(), 5);
}

TEST(SessionTest, UpdateForAPeerThatHoldsEverythingIsEmpty) {
  const Session session = MakeSession();
  const SequenceUpdate update = session.UpdateFrom(3, 1);
  EXPECT_TRUE(update.new_tokens.empty());
  EXPECT_EQ(update.prefix_hash, PrefixHash({10, 11, 12}));
}

TEST(SessionTest, UpdateForAPeerThatHoldsNothingIsTheWholeText) {
  const SequenceUpdate update = MakeSession().UpdateFrom(0, 1);
  EXPECT_EQ(update.prefix_hash, kEmptyPrefixHash);
  EXPECT_THAT(update.new_tokens, ElementsAre(10, 11, 12));
}

TEST(SessionTest, StopTokenIsKeptAndWhatFollowsItIsDropped) {
  Session session = MakeSession();
  const Session::Committed committed = session.Commit({20, 7, 21});
  EXPECT_EQ(committed.num_kept, 2);
  EXPECT_EQ(committed.finish_reason, FinishReason::kStop);
  EXPECT_EQ(committed.matched_stop_token, 7);
  EXPECT_THAT(session.tokens(), ElementsAre(10, 11, 12, 20, 7));
}

// Token 21 is "x", which stops; the text of others is a dot that waits for the
// next token.
class DotText final : public OutputText {
 public:
  std::string Push(TokenId token) override {
    if (token == 21) stop_ = "x";
    return std::exchange(held_, ".");
  }
  std::string Flush() override { return held_; }
  const std::optional<std::string>& stop_string() const override {
    return stop_;
  }

 private:
  std::string held_;
  std::optional<std::string> stop_;
};

TEST(SessionTest, TokensAfterAStopStringAreDropped) {
  Session session({}, {.prompt = {10},
                       .max_tokens = 3,
                       .stop_token_ids = {7},
                       .new_text = [] { return std::make_unique<DotText>(); }});
  EXPECT_EQ(session.Commit({20}).finish_reason, FinishReason::kUnspecified);
  const Session::Committed committed = session.Commit({21, 7});
  EXPECT_EQ(committed.text, ".");
  EXPECT_EQ(committed.text_ends.size(),
            static_cast<size_t>(committed.num_kept));
  EXPECT_EQ(committed.text_ends.back(), committed.text.size());
  EXPECT_EQ(session.FlushText(), ".");
  EXPECT_EQ(committed.num_kept, 1);
  EXPECT_EQ(committed.finish_reason, FinishReason::kStop);
  EXPECT_EQ(committed.matched_stop_string, "x");
  EXPECT_EQ(committed.matched_stop_token, std::nullopt);
  EXPECT_THAT(session.tokens(), ElementsAre(10, 20, 21));
}

TEST(SessionTest, ATokenThatEndsTheOutputHasNoText) {
  Session session({}, {.prompt = {10},
                       .max_tokens = 5,
                       .stop_token_ids = {7},
                       .new_text = [] { return std::make_unique<DotText>(); }});
  // Each pushed token shows the dot of the one before.
  EXPECT_EQ(session.Commit({20, 20, 7}).text, ".");
  EXPECT_EQ(session.FlushText(), ".");
}

TEST(SessionTest, LogprobsOfThePromptAreWantedOnce) {
  Session session({}, {.prompt = {10},
                       .max_tokens = 3,
                       .logprobs = {.emitted = 2, .prompt = 1}});
  EXPECT_EQ(session.logprobs(), (LogprobRequest{.emitted = 2, .prompt = 1}));
  session.Commit({20});
  EXPECT_EQ(session.logprobs(), (LogprobRequest{.emitted = 2}));
}

TEST(SessionTest, TheTraceIsInUpdatesThatOpenASequence) {
  const Session session(
      {}, {.prompt = {10, 11}, .max_tokens = 3, .traceparent = "trace"});
  EXPECT_EQ(session.UpdateFrom(0, 1).traceparent, "trace");
  EXPECT_EQ(session.UpdateFrom(1, 1).traceparent, "");
}

TEST(SessionTest, LengthEndsTheTextExactly) {
  Session session = MakeSession(/*max_tokens=*/2);
  EXPECT_EQ(session.num_left(), 2);
  const Session::Committed committed = session.Commit({20, 21, 22});
  EXPECT_EQ(committed.num_kept, 2);
  EXPECT_EQ(committed.finish_reason, FinishReason::kLength);
  EXPECT_FALSE(committed.matched_stop_token.has_value());
}

TEST(SessionTest, StopTokenAtTheLastPlaceIsAStop) {
  Session session = MakeSession(/*max_tokens=*/2);
  EXPECT_EQ(session.Commit({20, 8}).finish_reason, FinishReason::kStop);
}

TEST(SessionTest, StopTokensOfThePromptDoNotCount) {
  Session session({}, {.prompt = {7}, .max_tokens = 5, .stop_token_ids = {7}});
  EXPECT_EQ(session.Commit({20}).finish_reason, FinishReason::kUnspecified);
  EXPECT_EQ(session.num_emitted(), 1);
}

// As if it had been committed here, but for the text, which its client has.
TEST(SessionTest, ResumedOutputCountsAndIsSearchedForStops) {
  SessionParams params = {
      .prompt = {10}, .resumed = {20, 22}, .max_tokens = 4, .new_text = [] {
        return std::make_unique<DotText>();
      }};
  Session session({}, params);
  EXPECT_EQ(session.prompt_length(), 1);
  EXPECT_EQ(session.num_emitted(), 2);
  EXPECT_EQ(session.num_left(), 2);
  EXPECT_EQ(session.resumed().finish_reason, FinishReason::kUnspecified);
  EXPECT_THAT(session.UpdateFrom(0, 1).new_tokens, ElementsAre(10, 20, 22));
  const Session::Committed committed = session.Commit({21, 23});
  EXPECT_EQ(committed.text, ".") << "what was held back";
  EXPECT_EQ(committed.num_kept, 1);
  EXPECT_EQ(committed.matched_stop_string, "x");

  params.resumed = {20, 21, 22};
  const Session ended({}, params);
  EXPECT_EQ(ended.resumed().num_kept, 2);
  EXPECT_EQ(ended.resumed().finish_reason, FinishReason::kStop);
}

}  // namespace
}  // namespace espalier::coordinator
