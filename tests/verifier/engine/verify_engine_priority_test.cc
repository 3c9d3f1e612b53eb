// Priorities and deadlines of requests that wait for passes or for room.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;

Client ClientOf(uint64_t number, int64_t prompt) {
  return {.id = {1, number}, .text = Text(prompt, 3 + number)};
}

// Passes take a second. Their sequences are recorded by the first token of the
// text, which names the client.
class VerifyEnginePriority : public ::testing::Test {
 protected:
  void Record(EngineHarness& harness) {
    harness.model->set_pass_hook(
        [this, &harness](absl::Span<const SequenceRows> batch) {
          for (const SequenceRows& part : batch) {
            passes_.push_back(part.tokens[0] - 3);
          }
          harness.executor->MoveClock(absl::Seconds(1));
          return absl::OkStatus();
        });
  }
  std::shared_ptr<Reply> Send(EngineHarness& harness, const Client& client,
                              int64_t priority) {
    VerifyRequest request = client.Request();
    request.priority = priority;
    return harness.Send(std::move(request));
  }

  std::vector<int64_t> passes_;
};

TEST_F(VerifyEnginePriority, AMoreUrgentPromptTakesThePasses) {
  EngineHarness harness({}, {.max_batch_rows = 16});
  Record(harness);
  const auto slow = Send(harness, ClientOf(0, 48), 3);
  const auto urgent = Send(harness, ClientOf(1, 48), 0);
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(slow->value->ok() && urgent->value->ok());
  EXPECT_THAT(passes_, ElementsAre(1, 1, 1, 0, 0, 0));
}

// A chunk after as many seconds as the priorities differ by.
TEST_F(VerifyEnginePriority, TheLessUrgentPromptIsNotKeptOutForEver) {
  EngineHarness harness({}, {.max_batch_rows = 16});
  Record(harness);
  const auto slow = Send(harness, ClientOf(0, 32), 3);
  const auto urgent = Send(harness, ClientOf(1, 128), 0);
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(slow->value->ok() && urgent->value->ok());
  EXPECT_THAT(passes_, ElementsAre(1, 1, 1, 0, 1, 1, 1, 0, 1, 1));
}

// Room for one at a time.
TEST_F(VerifyEnginePriority, RoomGoesToTheMoreUrgentThatWait) {
  EngineHarness harness({.max_context = 64, .pool_tokens = 64},
                        {.max_batch_rows = 64});
  const auto first = Send(harness, ClientOf(0, 60), 0);
  harness.executor->RunUntilIdle();
  ASSERT_TRUE(first->value->ok());
  Record(harness);
  const auto later = Send(harness, ClientOf(1, 60), 5);
  const auto sooner = Send(harness, ClientOf(2, 60), 1);
  harness.executor->RunUntilIdle();
  EXPECT_FALSE(later->value || sooner->value);
  harness.engine->EndSequence({1, 0});
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(sooner->value && sooner->value->ok());
  EXPECT_FALSE(later->value);
  harness.engine->EndSequence({1, 2});
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(later->value && later->value->ok());
}

TEST_F(VerifyEnginePriority, ADeadlineEndsAPromptBetweenTwoPasses) {
  EngineHarness harness({}, {.max_batch_rows = 16});
  Record(harness);
  const auto late = harness.Send(ClientOf(0, 128).Request(),
                                 harness.executor->Now() + absl::Seconds(3));
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->value->status()));
  EXPECT_EQ(passes_.size(), 3u);
  // What is computed is not lost: the sequence goes on from there.
  const auto again = harness.Send(ClientOf(0, 128).Request());
  harness.executor->RunUntilIdle();
  EXPECT_TRUE(again->value->ok()) << again->value->status();
  EXPECT_EQ(passes_.size(), 8u);
}

}  // namespace
}  // namespace espalier::verifier
