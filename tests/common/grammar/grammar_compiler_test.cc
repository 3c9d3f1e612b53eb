#include "common/grammar/grammar_compiler.h"

#include <optional>
#include <utility>

#include "common/base/notification.h"
#include "common/speculation/request_errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::grammar::grammar_compiler_test {
namespace {

class SizedGrammar final : public Grammar {
 public:
  explicit SizedGrammar(int64_t bytes) : bytes_(bytes) {}
  std::unique_ptr<Matcher> NewMatcher(const std::atomic<bool>*) const override {
    return nullptr;
  }
  int64_t num_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

constexpr int64_t kQuick = 10, kAll = 100;

// Grammars of 1000 bytes; "bad" is refused, "heavy" takes more than quick work,
// "bomb" more than all.
class FakeBackend final : public Backend {
 public:
  absl::StatusOr<std::shared_ptr<const Grammar>> Compile(
      const GrammarSpec& spec, const CompileLimit& limit) const override {
    ++compiled;
    if (*limit.stop) {
      ++stopped;
      return absl::CancelledError("stopped");
    }
    if (spec.text == "bad") return FieldError("regex", "bad");
    if (spec.text == "bomb" || (spec.text == "heavy" && limit.work < kAll)) {
      return absl::ResourceExhaustedError("too much");
    }
    return std::make_shared<SizedGrammar>(1000);
  }
  mutable int compiled = 0;
  mutable int stopped = 0;
};

GrammarSpec Regex(std::string text) {
  return {.kind = GrammarSpec::Kind::kRegex, .text = std::move(text)};
}

// All executors are the test's.
class GrammarCompilerTest : public ::testing::Test {
 protected:
  void Start(const GrammarCompiler::Limits& limits) {
    compiler_.emplace(backend_, limits, [this](const std::string& name) {
      auto executor = std::make_unique<FakeExecutor>();
      (name == "grammar clock" ? clock_ : threads_.emplace_back()) =
          executor.get();
      return executor;
    });
  }
  struct Reply {
    int answers = 0;
    absl::Status status;
  };
  std::shared_ptr<Reply> Get(const GrammarSpec& spec) {
    auto reply = std::make_shared<Reply>();
    compiler_->Get(spec, [reply](const GrammarCompiler::Compiled& compiled) {
      ++reply->answers;
      reply->status = compiled.status();
    });
    return reply;
  }

  std::shared_ptr<FakeBackend> backend_ = std::make_shared<FakeBackend>();
  FakeExecutor* clock_ = nullptr;
  std::vector<FakeExecutor*> threads_;
  std::optional<GrammarCompiler> compiler_;
};

TEST_F(GrammarCompilerTest, CompilesOnItsThreadAndOnce) {
  Start({.threads = 1});
  const auto first = Get(Regex("a"));
  const auto second = Get(Regex("a"));
  EXPECT_EQ(first->answers, 0);
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(first->answers, 1);
  EXPECT_EQ(second->answers, 1);
  EXPECT_TRUE(first->status.ok());
  EXPECT_EQ(Get(Regex("a"))->answers, 1);
  EXPECT_EQ(backend_->compiled, 1);
}

TEST_F(GrammarCompilerTest, TextsDifferInKindAndForm) {
  Start({.threads = 1});
  GrammarSpec schema = {.kind = GrammarSpec::Kind::kJsonSchema, .text = "{}"};
  Get(schema);
  schema.compact = true;
  Get(schema);
  Get(Regex("{}"));
  Get({.kind = GrammarSpec::Kind::kChoice, .choices = {"ab", "c"}});
  Get({.kind = GrammarSpec::Kind::kChoice, .choices = {"a", "bc"}});
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(backend_->compiled, 5);
}

TEST_F(GrammarCompilerTest, KeepsRefusals) {
  Start({.threads = 1});
  const auto refused = Get(Regex("bad"));
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(FieldOf(refused->status), "regex");
  EXPECT_EQ(FieldOf(Get(Regex("bad"))->status), "regex");
  EXPECT_EQ(backend_->compiled, 1);
}

TEST_F(GrammarCompilerTest, DropsWhatWasNotUsedForLongest) {
  Start({.cache_bytes = 2100, .threads = 1});
  for (const char* text : {"a", "b", "a", "c"}) {
    Get(Regex(text));
    threads_[0]->RunUntilIdle();
  }
  EXPECT_EQ(backend_->compiled, 3);
  EXPECT_EQ(Get(Regex("a"))->answers, 1);
  EXPECT_EQ(Get(Regex("b"))->answers, 0);
}

TEST_F(GrammarCompilerTest, AGrammarAboveTheCacheIsGivenNotKept) {
  Start({.cache_bytes = 10, .threads = 1});
  const auto reply = Get(Regex("a"));
  threads_[0]->RunUntilIdle();
  EXPECT_TRUE(reply->status.ok());
  EXPECT_EQ(Get(Regex("a"))->answers, 0);
}

TEST_F(GrammarCompilerTest, RefusesWhatTakesTooLong) {
  Start({.time = absl::Seconds(5), .threads = 2});
  const auto slow = Get(Regex("slow"));
  const auto other = Get(Regex("other"));
  // The thread that compiles `slow` does not come back; the other one does.
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(other->answers + slow->answers, 1);
  clock_->AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(slow->answers, 1);
  EXPECT_EQ(other->answers, 1);
  const absl::Status& refusal =
      slow->status.ok() ? other->status : slow->status;
  EXPECT_EQ(FieldOf(refusal), "structured_output.regex");
  // A later answer is too late, and the thread is free again.
  threads_[1]->RunUntilIdle();
  EXPECT_EQ(slow->answers, 1);
  const auto next = Get(Regex("next"));
  for (FakeExecutor* thread : threads_) thread->RunUntilIdle();
  EXPECT_TRUE(next->status.ok());
  EXPECT_EQ(next->answers, 1);
}

TEST_F(GrammarCompilerTest, RefusesWhatWaitsTooLong) {
  Start({.time = absl::Seconds(5), .threads = 1, .waiting = 1});
  Get(Regex("slow"));
  const auto waiting = Get(Regex("waiting"));
  const auto crowded = Get(Regex("crowded"));
  EXPECT_TRUE(absl::IsResourceExhausted(crowded->status));
  clock_->AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(absl::IsResourceExhausted(waiting->status));
  // It is not remembered as wrong.
  threads_[0]->RunUntilIdle();
  const auto again = Get(Regex("waiting"));
  threads_[0]->RunUntilIdle();
  EXPECT_TRUE(again->status.ok());
  EXPECT_EQ(backend_->compiled, 2);
}

TEST_F(GrammarCompilerTest, WhatTakesMuchWorkIsDoneByTheFirstThread) {
  Start({.threads = 2, .quick_work = kQuick, .work = kAll});
  const auto heavy = Get(Regex("heavy"));
  const auto bomb = Get(Regex("bomb"));
  // The second thread puts one off, and is free for others again.
  threads_[1]->RunUntilIdle();
  EXPECT_EQ(heavy->answers + bomb->answers, 0);
  const auto other = Get(Regex("a"));
  threads_[1]->RunUntilIdle();
  EXPECT_TRUE(other->status.ok());
  EXPECT_EQ(other->answers, 1);
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(heavy->answers, 1);
  EXPECT_TRUE(heavy->status.ok());
  EXPECT_EQ(FieldOf(bomb->status), "structured_output.regex");
  // The refusal is remembered.
  const int compiled = backend_->compiled;
  EXPECT_EQ(FieldOf(Get(Regex("bomb"))->status), "structured_output.regex");
  EXPECT_EQ(backend_->compiled, compiled);
}

TEST_F(GrammarCompilerTest, OneThreadDoesWhatIsQuickFirst) {
  Start({.threads = 1, .quick_work = kQuick, .work = kAll});
  const auto heavy = Get(Regex("heavy"));
  const auto other = Get(Regex("a"));
  threads_[0]->RunUntilIdle();
  EXPECT_TRUE(heavy->status.ok());
  EXPECT_TRUE(other->status.ok());
  EXPECT_EQ(heavy->answers + other->answers, 2);
}

TEST_F(GrammarCompilerTest, WhatTakesTooLongIsStopped) {
  Start({.time = absl::Seconds(5), .threads = 1});
  const auto slow = Get(Regex("slow"));
  clock_->AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(slow->answers, 1);
  threads_[0]->RunUntilIdle();
  EXPECT_EQ(backend_->stopped, 1);
  const auto next = Get(Regex("next"));
  threads_[0]->RunUntilIdle();
  EXPECT_TRUE(next->status.ok());
}

TEST_F(GrammarCompilerTest, AnswersAllAtItsEnd) {
  Start({.threads = 1});
  const auto begun = Get(Regex("a"));
  const auto waiting = Get(Regex("b"));
  compiler_.reset();
  EXPECT_TRUE(absl::IsUnavailable(begun->status));
  EXPECT_TRUE(absl::IsUnavailable(waiting->status));
  EXPECT_EQ(backend_->stopped, backend_->compiled);
}

}  // namespace
}  // namespace espalier::grammar::grammar_compiler_test
