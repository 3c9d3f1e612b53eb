// Random requests of several sessions among random faults, on every model:
// every request is answered once, and every text, with its hidden states and
// log-probabilities, is that of plain decoding.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/speculation/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/language_model_decorator.h"
#include "tests/testing/watched_device.h"
#include "tests/verifier/engine_harness.h"
#include "tests/verifier/kernel_models.h"

namespace espalier::verifier::verify_engine_schedule_test {
namespace {

using absl::Milliseconds;
using espalier::testing::WatchedDevice;
using ::testing::IsEmpty;

struct Subject {
  std::string name;
  std::optional<KernelModel> model = {};  // none: the scripted model
  uint64_t seed = 0;
  uint64_t sessions = 6;
  int64_t longest = 120;  // text
  int steps = 1500;
  int64_t pool_tokens = 420;
};

std::vector<Subject> Subjects() {
  std::vector<Subject> subjects;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    subjects.push_back({.name = absl::StrCat("scripted_", seed), .seed = seed});
  }
  for (const KernelModel& model : KernelModels()) {
    Subject subject = {.model = model};
    if (model.is_slow()) {
      subject.sessions = 4;
      subject.longest = 80;
      subject.steps = 320;
      subject.pool_tokens = 192;
    }
    for (; subject.seed < (model.is_slow() ? 1u : 4u); ++subject.seed) {
      subject.name = absl::StrCat(model.name, "_", subject.seed);
      subjects.push_back(subject);
    }
  }
  return subjects;
}

// Calls `around` with each pass.
class InterruptedModel final : public LanguageModelDecorator {
 public:
  using Pass = std::function<absl::StatusOr<std::unique_ptr<LogitRows>>()>;
  using Around = std::function<absl::StatusOr<std::unique_ptr<LogitRows>>(
      const Pass& pass)>;

  explicit InterruptedModel(std::unique_ptr<LanguageModel> model)
      : LanguageModelDecorator(std::move(model)) {}

  Around around = [](const Pass& pass) { return pass(); };
  int num_sequences = 0;

  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    return around([&] { return LanguageModelDecorator::Forward(batch); });
  }
  CacheId NewSequence() override {
    ++num_sequences;
    return LanguageModelDecorator::NewSequence();
  }
  void Release(CacheId cache) override {
    --num_sequences;
    LanguageModelDecorator::Release(cache);
  }
};

// Adds the options that a session asks for beside its text.
void AddOptions(uint64_t number, int64_t prompt_length, Client& client,
                VerifyRequest& request) {
  request.update.sampling.temperature = number % 2 ? 1.0f : 0.0f;
  switch (number % 6) {
    case 0:
    case 3:
      request.features.taps = {0, 2};
      break;
    case 1:
      request.update.sampling.top_k = 30;
      request.update.sampling.top_p = 0.95f;
      request.logprobs.emitted = 3;
      break;
    case 2:
      request.adjustments = {.prompt_length = prompt_length,
                             .bias = {{3, 2.0f}},
                             .frequency_penalty = 0.5f};
      if (std::ssize(client.text) == prompt_length) request.logprobs.prompt = 2;
      break;
    case 4:
      request.priority = 2;
      break;
  }
}

LogprobRows Slice(const LogprobRows& rows, int64_t from, int64_t count) {
  const auto part = [&](const auto& values, int64_t width) {
    const auto begin = values.begin() + from * width;
    return std::decay_t<decltype(values)>(begin, begin + count * width);
  };
  return {.top = rows.top,
          .chosen = part(rows.chosen, 1),
          .top_tokens = part(rows.top_tokens, rows.top),
          .top_logprobs = part(rows.top_logprobs, rows.top)};
}

// What a session gets that is alone and does not speculate.
struct Plain {
  Text text;
  FeatureRows features;
  LogprobRows logprobs;  // of the output
  LogprobRows prompt_logprobs;
};

// A client that drafts, waits, asks again, gives up, and starts over.
struct Wanderer {
  Client client;
  Text prompt;
  Plain plain = {};
  int64_t features_end = 0;  // of those that it has
  VerifyRequest request = {};
  std::vector<std::shared_ptr<Reply>> replies = {};  // unanswered, or just so

  VerifyRequest Request(TokenTree tree) {
    VerifyRequest made = client.Request(std::move(tree));
    AddOptions(client.id.number, std::ssize(prompt), client, made);
    made.features.first_position = features_end;
    return made;
  }
};

class RandomSchedule : public ::testing::TestWithParam<Subject> {
 protected:
  RandomSchedule() {
    if (subject_.model.has_value()) {
      options_ = WriteModel(*subject_.model, "verify_engine_schedule_test");
      options_.max_context = 160;
      options_.max_rows = 32;
    }
    for (uint64_t i = 0; i < subject_.sessions; ++i) {
      Wanderer& one = all_.emplace_back();
      one.prompt = Text(5 + 9 * i, static_cast<TokenId>(i));
      one.client = {.id = {3, i}, .text = one.prompt};
      one.client.sampling.seed = i;
      one.plain = Decode(one);
    }
    auto model = std::make_unique<InterruptedModel>(NewModel(device_));
    model_ = model.get();
    engine_ = std::make_unique<EngineUnderTest>(
        std::move(model),
        VerifyEngine::Options{
            .max_tree_nodes = 12,
            .max_batch_rows = 1 + static_cast<int64_t>(random_() % 48)});
    model_->around = [this](const auto& pass) { return Interrupt(pass); };
  }

  // Makes a model with the pool of the subject. `device`: of a GPU's kernels,
  // to be watched.
  std::unique_ptr<LanguageModel> NewModel(
      std::shared_ptr<WatchedDevice>& device) {
    if (!subject_.model.has_value()) {
      return std::make_unique<ScriptedLanguageModel>(script_);
    }
    ModelOptions options = options_;
    if (options.backend == "cuda") {
      device = std::make_shared<WatchedDevice>(options.device);
    }
    options.kv_pool_bytes =
        subject_.pool_tokens * Load(options_)->info().kv_bytes_per_token;
    return Load(options, device);
  }

  // Alone and token by token, for a while longer than the schedule.
  Plain Decode(Wanderer one) {
    std::shared_ptr<WatchedDevice> device;
    EngineUnderTest engine(NewModel(device), {});
    Plain plain;
    while (std::ssize(one.client.text) < subject_.longest + 12) {
      const auto result =
          engine.Ask(one.Request(TokenTree::RootOnly(one.client.text.back())));
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) break;
      one.client.Commit(*result);
      one.features_end = result->features.end_position();
      plain.features.Extend(result->features);
      plain.logprobs.top = result->logprobs.top;
      plain.logprobs.Append(result->logprobs);
      if (result->prompt_logprobs.size() > 0) {
        plain.prompt_logprobs = result->prompt_logprobs;
      }
    }
    plain.text = one.client.text;
    const VerifyRequest request =
        one.Request(TokenTree::RootOnly(plain.text.back()));
    if (!subject_.model.has_value() && !request.adjustments.any()) {
      EXPECT_EQ(plain.text,
                PlainText(script_, one.prompt, request.update.sampling,
                          std::ssize(plain.text)));
    }
    return plain;
  }

  absl::StatusOr<std::unique_ptr<LogitRows>> Interrupt(
      const InterruptedModel::Pass& pass) {
    engine_->executor->MoveClock(Milliseconds(random_() % 4));
    if (random_() % 20 == 0) return absl::UnknownError("bad luck");
    if (device_ == nullptr) return pass();
    device_->is_full = random_() % 4 == 0;
    auto done = pass();
    if (std::exchange(device_->is_full, false)) {
      EXPECT_TRUE(absl::IsResourceExhausted(done.status())) << done.status();
      ++num_full_;
    }
    return done;
  }

  // Some of the text that is to come, among other tokens.
  TokenTree RandomTree(const Wanderer& one) {
    const Text& text = one.client.text;
    TokenTree tree = TokenTree::RootOnly(text.back());
    int32_t node = 0;
    for (size_t i = text.size(), end = i + random_() % 5; i < end; ++i) {
      const TokenId next = one.plain.text.at(i);
      if (random_() % 2) tree.Add(node, next / 2, 0.0f);
      node = tree.Add(node, next, 0.0f);
    }
    return tree;
  }

  void Ask(Wanderer& one) {
    Client& client = one.client;
    if (random_() % 10 == 0) client.held = random_() % (client.held + 1);
    one.request = one.Request(RandomTree(one));
    const absl::Time deadline =
        random_() % 5 ? absl::InfiniteFuture()
                      : engine_->executor->Now() + Milliseconds(random_() % 20);
    one.replies.push_back(engine_->Send(one.request, deadline));
  }

  // Checks that what came with tokens is what plain decoding gives with them.
  void CheckCompany(const Wanderer& one, const VerifyResult& result) {
    const int64_t before = std::ssize(one.client.text);
    const int64_t count = std::ssize(result.tokens);
    const FeatureRows& features = result.features;
    if (!one.request.features.taps.empty()) {
      ASSERT_EQ(features.end_position(), before + count - 1);
      EXPECT_EQ(features.Rows(features.first_position, features.num_rows()),
                one.plain.features.Rows(features.first_position,
                                        features.num_rows()));
    }
    if (one.request.logprobs.emitted.has_value()) {
      EXPECT_EQ(result.logprobs, Slice(one.plain.logprobs,
                                       before - std::ssize(one.prompt), count));
    }
    if (one.request.logprobs.prompt.has_value()) {
      EXPECT_EQ(result.prompt_logprobs, one.plain.prompt_logprobs);
    }
  }

  void Read(Wanderer& one) {
    for (const auto& reply : std::exchange(one.replies, {})) {
      if (!reply->value) {
        one.replies.push_back(reply);
        continue;
      }
      ASSERT_EQ(reply->times_answered, 1);
      const absl::StatusOr<VerifyResult>& result = *reply->value;
      if (result.ok()) {
        ++num_results_;
        // Asked twice, it may be answered twice.
        if (result->round != one.client.round) continue;
        ASSERT_NO_FATAL_FAILURE(CheckCompany(one, *result));
        one.client.Commit(*result);
        one.features_end = result->features.end_position();
      } else if (const auto held = HeldLength(result.status())) {
        one.client.held = *held;
      } else {
        ASSERT_TRUE(absl::IsCancelled(result.status()) ||
                    absl::IsDeadlineExceeded(result.status()) ||
                    absl::IsInternal(result.status()) ||
                    absl::IsResourceExhausted(result.status()))
            << result.status();
        ++num_errors_;
      }
    }
    const Text& text = one.client.text;
    ASSERT_EQ(text, Text(one.plain.text.begin(),
                         one.plain.text.begin() + std::ssize(text)));
  }

  // Returns whether a text is long enough.
  bool Step() {
    Wanderer& one = all_[random_() % all_.size()];
    if (one.replies.empty()) {
      if (std::ssize(one.client.text) > subject_.longest) return true;
      Ask(one);
    } else if (random_() % 6 == 0) {
      one.replies.push_back(engine_->Send(one.request));
    } else if (random_() % 10 == 0) {
      engine_->engine->EndSequence(one.client.id);
    }
    for (uint64_t run = random_() % 4; run > 0; --run) {
      engine_->executor->RunOne();
    }
    Read(one);
    return false;
  }

  const Subject subject_ = GetParam();
  const ScriptedLanguageModel::Options script_ = {
      .max_context = 160, .pool_tokens = subject_.pool_tokens};
  ModelOptions options_;
  std::mt19937_64 random_{subject_.seed};
  std::vector<Wanderer> all_;
  std::shared_ptr<WatchedDevice> device_;  // null: there is none
  InterruptedModel* model_ = nullptr;      // the engine's
  std::unique_ptr<EngineUnderTest> engine_;
  int num_results_ = 0;
  int num_errors_ = 0;
  int num_full_ = 0;  // passes for which the device had no memory
};

TEST_P(RandomSchedule, EveryRequestIsAnsweredOnceAndEveryTextIsThePlainOne) {
  bool done = false;
  for (int step = 0; step < subject_.steps && !done; ++step) {
    ASSERT_NO_FATAL_FAILURE(done = Step());
  }
  // Sessions that wait for K/V room get it when the holders stop sending
  // requests.
  engine_->executor->AdvanceBy(absl::Seconds(10));
  for (Wanderer& one : all_) {
    ASSERT_NO_FATAL_FAILURE(Read(one));
    EXPECT_THAT(one.replies, IsEmpty());
    engine_->engine->EndSequence(one.client.id);
  }
  engine_->executor->RunUntilIdle();
  EXPECT_EQ(model_->num_sequences, 0);
  EXPECT_GT(num_results_, subject_.steps / 40);
  EXPECT_GT(num_errors_, 0);
  if (device_ != nullptr) {
    EXPECT_GT(num_full_, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Subjects, RandomSchedule,
                         ::testing::ValuesIn(Subjects()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace espalier::verifier::verify_engine_schedule_test
