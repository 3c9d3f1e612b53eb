// A K/V pool that is too small for all: which sessions wait, which are
// preempted, and that every text is the same as alone.

#include <algorithm>
#include <iterator>
#include <map>
#include <random>

#include "common/base/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/language_model_decorator.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier::verify_engine_room_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

double MetricValue(EngineHarness& harness, const std::string& name) {
  for (const auto& family : harness.metrics.Collect()) {
    if (family.name != name) continue;
    const auto& metric = family.metric.at(0);
    return family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                          : metric.gauge.value;
  }
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

double Preemptions(EngineHarness& harness) {
  return MetricValue(harness, "espalier_kv_preemptions_total");
}

Client ClientOf(uint64_t number, int64_t prompt) {
  return {.id = {1, number}, .text = Text(prompt, 3 + number)};
}

// A client that decodes to `max_length` tokens, round after round.
struct Reader {
  Client client;
  int64_t max_length = 0;
  std::shared_ptr<Reply> reply = nullptr;

  bool done() const { return std::ssize(client.text) >= max_length; }

  VerifyRequest Request() const {
    TokenTree tree = TokenTree::RootOnly(client.text.back());
    if (std::ssize(client.text) + 1 < max_length) tree.Add(0, 5, 0.0f);
    VerifyRequest request = client.Request(std::move(tree));
    request.max_length = max_length;
    return request;
  }
};

// Runs all to their ends, each asking again as soon as it is answered, and
// ends their sequences. Returns the order in which they were done.
std::vector<size_t> ReadAll(EngineHarness& harness,
                            std::vector<Reader>& readers) {
  std::vector<size_t> order;
  int idle = 0;
  while (order.size() < readers.size()) {
    for (Reader& reader : readers) {
      if (!reader.done() && reader.reply == nullptr) {
        reader.reply = harness.Send(reader.Request());
      }
    }
    if (!harness.executor->RunOne()) {
      harness.executor->AdvanceBy(absl::Milliseconds(100));
      if (++idle > 100) return order;  // no session makes progress
    }
    for (size_t i = 0; i < readers.size(); ++i) {
      Reader& reader = readers[i];
      if (reader.reply == nullptr || !reader.reply->value) continue;
      const auto reply = std::exchange(reader.reply, nullptr);
      EXPECT_TRUE(reply->value->ok()) << reply->value->status();
      if (!reply->value->ok()) return order;
      idle = 0;
      reader.client.Commit(**reply->value);
      if (!reader.done()) continue;
      order.push_back(i);
      harness.engine->EndSequence(reader.client.id);
    }
  }
  harness.executor->RunUntilIdle();
  return order;
}

void ExpectTextsAreThoseOfReadingAlone(const EngineHarness& harness,
                                       const std::vector<Reader>& readers,
                                       int64_t prompt) {
  for (const Reader& reader : readers) {
    const Text& text = reader.client.text;
    EXPECT_EQ(text, PlainText(harness.script,
                              Text(text.begin(), text.begin() + prompt),
                              reader.client.sampling, std::ssize(text)));
  }
}

TEST(VerifyEngineRoom, TwoThatFitShareThePool) {
  EngineHarness harness({.pool_tokens = 100}, {.max_batch_rows = 16});
  std::vector<Reader> readers = {{ClientOf(0, 20), 50}, {ClientOf(1, 20), 50}};
  EXPECT_EQ(ReadAll(harness, readers).size(), 2u);
  EXPECT_EQ(Preemptions(harness), 0);
  ExpectTextsAreThoseOfReadingAlone(harness, readers, 20);
}

// A model that is on a GPU.
class OnADevice final : public LanguageModelDecorator {
 public:
  using LanguageModelDecorator::LanguageModelDecorator;
  DeviceMemory device_memory() const override { return {700, 1000}; }
};

TEST(VerifyEngineRoom, ResultsAndInfoSayWhatMemoryIsInUse) {
  EngineUnderTest harness(
      std::make_unique<OnADevice>(std::make_unique<ScriptedLanguageModel>(
          ScriptedLanguageModel::Options{.pool_tokens = 100})),
      {});
  Client client = ClientOf(0, 20);
  const auto result = harness.Ask(client.Request());
  ASSERT_TRUE(result.ok()) << result.status();
  const MemoryUse during = {.kv_tokens = 100,
                            .kv_tokens_used = 20,
                            .device_bytes = 1000,
                            .device_bytes_used = 700};
  EXPECT_EQ(result->memory, during);
  EXPECT_EQ(harness.engine->info().memory, during);
  harness.engine->EndSequence(client.id);
  harness.executor->RunUntilIdle();
  EXPECT_EQ(harness.engine->info().memory.kv_tokens_used, 0);
}

TEST(VerifyEngineRoom, OneAloneMayFillThePool) {
  EngineHarness harness({.max_context = 200, .pool_tokens = 64},
                        {.max_batch_rows = 16});
  EXPECT_EQ(harness.engine->info().max_context, 64);
  std::vector<Reader> readers = {{ClientOf(0, 20), 64}};
  EXPECT_EQ(ReadAll(harness, readers).size(), 1u);
  ExpectTextsAreThoseOfReadingAlone(harness, readers, 20);
}

TEST(VerifyEngineRoom, APromptThatNeverFitsIsRefusedAtOnceWithTheLimit) {
  EngineHarness harness({.max_context = 200, .pool_tokens = 64});
  const auto refused = harness.Ask(ClientOf(0, 65).Request());
  EXPECT_TRUE(absl::IsOutOfRange(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr("65"));
  EXPECT_THAT(refused.status().message(), HasSubstr("max_context is 64"));
}

// With the expected 256 tokens both fit; at their full lengths they do not.
TEST(VerifyEngineRoom, TheYoungerGivesWayAndGoesOnWithTheSameText) {
  EngineHarness harness({.max_context = 700, .pool_tokens = 700},
                        {.max_batch_rows = 32});
  for (const float temperature : {0.0f, 1.0f}) {
    const double before = Preemptions(harness);
    std::vector<Reader> readers = {{ClientOf(0, 40), 500},
                                   {ClientOf(1, 40), 500}};
    for (Reader& reader : readers) {
      reader.client.sampling = {.temperature = temperature, .seed = 9};
    }
    EXPECT_THAT(ReadAll(harness, readers), ElementsAre(0, 1));
    EXPECT_EQ(Preemptions(harness), before + 1);
    ExpectTextsAreThoseOfReadingAlone(harness, readers, 40);
  }
  EXPECT_EQ(MetricValue(harness, "espalier_kv_tokens_used"), 0);
}

TEST(VerifyEngineRoom, WhoWasPreemptedComesBeforeThoseWhoCameLater) {
  EngineHarness harness({.max_context = 700, .pool_tokens = 700},
                        {.max_batch_rows = 32});
  std::vector<Reader> readers;
  for (uint64_t i = 0; i < 6; ++i) readers.push_back({ClientOf(i, 40), 500});
  EXPECT_THAT(ReadAll(harness, readers), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_GE(Preemptions(harness), 1);
  EXPECT_LE(Preemptions(harness), 6);
  ExpectTextsAreThoseOfReadingAlone(harness, readers, 40);
}

TEST(VerifyEngineRoom, FeaturesAreThoseOfAnUndisturbedText) {
  EngineHarness harness({.max_context = 200, .pool_tokens = 200},
                        {.max_batch_rows = 16});
  const std::vector<int32_t> taps = {1, 3};
  Client young = ClientOf(1, 60);
  VerifyRequest request = young.Request();
  request.features.taps = taps;
  young.Commit(*harness.Ask(request));
  // It asks again, and before it has its pass an older one takes its room.
  const Text text = young.text;
  Client old = ClientOf(0, 150);
  harness.executor->AdvanceBy(absl::Seconds(2));  // young is dormant
  ASSERT_TRUE(harness.Ask(old.Request()).ok());
  ASSERT_EQ(Preemptions(harness), 1);
  harness.engine->EndSequence(old.id);
  request = young.Request();
  request.features = {.taps = taps, .first_position = 60};
  const auto verify_result = harness.Ask(request);
  ASSERT_TRUE(verify_result.ok()) << verify_result.status();
  EXPECT_EQ(verify_result->features.first_position, 60);
  EXPECT_EQ(verify_result->features.num_rows(), 1);
  FeatureRows expected = {.first_position = 60,
                          .width = 2 * ScriptedLanguageModel::kHiddenSize};
  for (int32_t tap : taps) {
    const auto state = ScriptedLanguageModel::StateAt(tap, text);
    std::transform(state.begin(), state.end(),
                   std::back_inserter(expected.data), FloatToBf16);
  }
  EXPECT_EQ(verify_result->features, expected);
}

// Holds a pool of 100 tokens with one session that is between two rounds.
class FullPool : public ::testing::Test {
 protected:
  FullPool() {
    first_.Commit(*harness_.Ask(first_.Request()));
    waiting_ = harness_.Send(second_.Request(), deadline_);
    harness_.executor->RunUntilIdle();
    EXPECT_FALSE(waiting_->value);
    EXPECT_EQ(MetricValue(harness_, "espalier_kv_sessions_waiting"), 1);
  }

  EngineHarness harness_{{.pool_tokens = 100}};
  Client first_ = ClientOf(0, 80);
  Client second_ = ClientOf(1, 50);
  const absl::Time deadline_ =
      harness_.executor->Now() + absl::Milliseconds(500);
  std::shared_ptr<Reply> waiting_;
};

TEST_F(FullPool, WhoWaitsBeginsWhenTheOtherEnds) {
  harness_.engine->EndSequence(first_.id);
  harness_.executor->RunUntilIdle();
  ASSERT_TRUE(waiting_->value);
  EXPECT_TRUE(waiting_->value->ok());
  EXPECT_EQ(MetricValue(harness_, "espalier_kv_sessions_waiting"), 0);
}

TEST_F(FullPool, TheWaitForRoomIsMeasured) {
  harness_.executor->AdvanceBy(absl::Milliseconds(300));
  harness_.engine->EndSequence(first_.id);
  harness_.executor->RunUntilIdle();
  ASSERT_TRUE(waiting_->value && waiting_->value->ok());
  EXPECT_EQ((*waiting_->value)->timings.room, absl::Milliseconds(300));
  EXPECT_EQ((*waiting_->value)->timings.queue, absl::Milliseconds(300));
  second_.Commit(**waiting_->value);
  EXPECT_EQ(harness_.Ask(second_.Request())->timings.room,
            absl::ZeroDuration());
}

TEST_F(FullPool, WhoWaitsMayBeCancelled) {
  harness_.engine->EndSequence(second_.id);
  harness_.executor->RunUntilIdle();
  ASSERT_TRUE(waiting_->value);
  EXPECT_TRUE(absl::IsCancelled(waiting_->value->status()));
  EXPECT_EQ(harness_.model->num_sequences(), 1);
  first_.Commit(*harness_.Ask(first_.Request()));
  EXPECT_EQ(MetricValue(harness_, "espalier_kv_sessions_waiting"), 0);
}

TEST_F(FullPool, WhoWaitsHearsOfItsDeadline) {
  harness_.executor->AdvanceTo(deadline_);
  ASSERT_TRUE(waiting_->value);
  EXPECT_TRUE(absl::IsDeadlineExceeded(waiting_->value->status()));
}

TEST_F(FullPool, WhoWaitsMayAskAgain) {
  const auto again = harness_.Send(second_.Request());
  harness_.executor->RunUntilIdle();
  ASSERT_TRUE(waiting_->value);
  EXPECT_TRUE(absl::IsCancelled(waiting_->value->status()));
  EXPECT_FALSE(again->value);
  harness_.engine->EndSequence(first_.id);
  harness_.executor->RunUntilIdle();
  EXPECT_TRUE(again->value && again->value->ok());
}

TEST_F(FullPool, WhoAsksForNothingForLongGivesWay) {
  const auto patient = harness_.Send(second_.Request());
  harness_.executor->AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(patient->value);
  EXPECT_TRUE(patient->value->ok()) << patient->value->status();
  EXPECT_EQ(Preemptions(harness_), 1);
  // It is admitted again when there is room, and its text continues unchanged.
  const auto back = harness_.Send(first_.Request());
  harness_.executor->RunUntilIdle();
  EXPECT_FALSE(back->value);
  harness_.engine->EndSequence(second_.id);
  harness_.executor->RunUntilIdle();
  ASSERT_TRUE(back->value && back->value->ok());
  first_.Commit(**back->value);
  EXPECT_EQ(first_.text, PlainText(harness_.script, Text(80, 3), {}, 82));
}

TEST_F(FullPool, NobodySpinsWhileItWaits) {
  const int64_t passes = harness_.model->num_passes();
  for (int i = 0; i < 1000; ++i) {
    if (!harness_.executor->RunOne()) break;
    ASSERT_LT(i, 10);
  }
  EXPECT_EQ(harness_.model->num_passes(), passes);
}

// Many sessions of random sizes, in blocks, with a pool for a few: all finish,
// with the same texts as alone.
class RandomOverload : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomOverload, EverybodyGetsOn) {
  std::mt19937_64 random(GetParam());
  EngineHarness harness(
      {.max_context = 480,
       .max_rows = 8 + static_cast<int64_t>(random() % 24),
       .pool_tokens = 480,
       .block_tokens = 16},
      {.max_batch_rows = 8 + static_cast<int64_t>(random() % 24)});
  constexpr int64_t kPrompt = 20;
  std::vector<Reader> readers;
  for (uint64_t i = 0; i < 8; ++i) {
    Reader reader = {ClientOf(i, kPrompt),
                     kPrompt + 10 + static_cast<int64_t>(random() % 440)};
    reader.client.sampling = {.temperature = i % 2 ? 1.0f : 0.0f, .seed = i};
    readers.push_back(std::move(reader));
  }
  EXPECT_EQ(ReadAll(harness, readers).size(), readers.size());
  ExpectTextsAreThoseOfReadingAlone(harness, readers, kPrompt);
  harness.executor->RunUntilIdle();
  EXPECT_EQ(MetricValue(harness, "espalier_kv_tokens_used"), 0);
  EXPECT_LE(Preemptions(harness), 30);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOverload,
                         ::testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace espalier::verifier::verify_engine_room_test
