// Quick drafters in the process of their caller.
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/notification.h"
#include "common/base/serial_executor.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/stale_base.h"
#include "drafter/engine/draft_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Notes {
  bool is_quick = true;
  std::vector<std::thread::id> drafted_on;
  std::vector<uint64_t> forgotten;
  std::function<void()> while_drafting = [] {};
};

class NotingDrafter final : public Drafter {
 public:
  explicit NotingDrafter(Notes& notes) : notes_(notes) {}

  bool is_quick() const override { return notes_.is_quick; }

  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) override {
    notes_.drafted_on.push_back(std::this_thread::get_id());
    notes_.while_drafting();
    std::vector<TokenTree> trees;
    for (const SequenceView& view : batch) {
      trees.push_back(TokenTree::RootOnly(view.root()));
    }
    return trees;
  }

  void Forget(SequenceId id) override { notes_.forgotten.push_back(id.number); }

 private:
  Notes& notes_;
};

ProposeRequest Request(uint64_t number, int64_t tokens) {
  return {.update = {.sequence = {1, number},
                     .prefix_hash = kEmptyPrefixHash,
                     .new_tokens = std::vector<TokenId>(tokens, 1)},
          .budget = {.max_nodes = 3, .max_depth = 3}};
}

class QuickEngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<DraftEngine> Make(std::unique_ptr<Executor> executor) {
    return std::make_unique<DraftEngine>(
        DraftEngine::Options{
            .name = "quick", .vocab_size = 10, .max_quick_tokens = 100},
        std::make_unique<NotingDrafter>(notes_), std::move(executor), metrics_);
  }

  static absl::StatusOr<Proposal> Answer(DraftEngine& engine,
                                         ProposeRequest request) {
    absl::StatusOr<Proposal> answer;
    Notification done;
    engine.Propose(std::move(request), absl::InfiniteFuture(), nullptr,
                   [&](absl::StatusOr<Proposal> given) {
                     answer = std::move(given);
                     done.Notify();
                   });
    done.Wait();
    return answer;
  }

  // Returns whether a request is drafted on the thread that asks.
  bool DraftsHere(DraftEngine& engine, ProposeRequest request) {
    notes_.drafted_on.clear();
    EXPECT_TRUE(Answer(engine, std::move(request)).ok());
    return notes_.drafted_on == std::vector{std::this_thread::get_id()};
  }

  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  DrafterMetrics metrics_ = MakeDrafterMetrics(*registry_, "quick");
  Notes notes_;
};

TEST_F(QuickEngineTest, AFewTokensAreDraftedOnTheCallersThread) {
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  EXPECT_TRUE(DraftsHere(*engine, Request(1, 100)));
  EXPECT_TRUE(DraftsHere(*engine, Request(1, 1)));
}

TEST_F(QuickEngineTest, ALongTextIsReadOnTheDraftersThread) {
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  EXPECT_FALSE(DraftsHere(*engine, Request(1, 101)));
}

TEST_F(QuickEngineTest, ManyRanksAreReadOnTheDraftersThread) {
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  ProposeRequest request = Request(1, 1);
  request.ranks.contexts.assign(2 * 20, 1);
  EXPECT_FALSE(DraftsHere(*engine, std::move(request)));
}

TEST_F(QuickEngineTest, ADrafterThatComputesHasItsOwnThread) {
  notes_.is_quick = false;
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  EXPECT_FALSE(DraftsHere(*engine, Request(1, 1)));
}

TEST_F(QuickEngineTest, WhileItsThreadIsBusyACallerDoesNotWait) {
  Notification busy, go;
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  notes_.while_drafting = [&] {
    if (busy.HasBeenNotified()) return;
    busy.Notify();
    go.Wait();
  };
  Notification first, second;
  engine->Propose(Request(1, 101), absl::InfiniteFuture(), nullptr,
                  [&](absl::StatusOr<Proposal>) { first.Notify(); });
  busy.Wait();
  engine->Propose(Request(2, 1), absl::InfiniteFuture(), nullptr,
                  [&](absl::StatusOr<Proposal>) { second.Notify(); });
  EXPECT_FALSE(second.HasBeenNotified());
  go.Notify();
  first.Wait();
  second.Wait();
}

// An Executor that counts where tasks go, and runs them at once.
class CountingExecutor final : public Executor {
 public:
  void Post(Task task) override {
    ++posted;
    std::move(task)();
  }
  void Dispatch(Task task) override {
    ++dispatched;
    std::move(task)();
  }
  Timer PostAt(absl::Time, Task) override { return {}; }
  void Cancel(const Timer&) override {}
  absl::Time Now() const override { return now; }

  int posted = 0, dispatched = 0;
  absl::Time now = absl::UnixEpoch();
};

TEST_F(QuickEngineTest, ASlowDrafterIsSentAwayForLongerAndLonger) {
  auto owned = std::make_unique<CountingExecutor>();
  CountingExecutor& executor = *owned;
  auto engine = Make(std::move(owned));
  notes_.while_drafting = [&] { executor.now += absl::Milliseconds(2); };
  const int requests = 2000;
  for (int i = 0; i < requests; ++i) {
    ASSERT_TRUE(Answer(*engine, Request(1, 1)).ok());
  }
  EXPECT_EQ(executor.posted + executor.dispatched, requests);
  EXPECT_LE(executor.dispatched, 10);
  notes_.while_drafting = [] {};
  for (int i = 0; i < 3 * requests; ++i) {
    ASSERT_TRUE(Answer(*engine, Request(1, 1)).ok());
  }
  EXPECT_GE(executor.dispatched, requests) << "it is quick again";
}

TEST_F(QuickEngineTest, AnExceptionIsAnErrorOfThatRequest) {
  auto engine = Make(std::make_unique<SerialExecutor>("quick"));
  ASSERT_TRUE(Answer(*engine, Request(7, 3)).ok());
  notes_.while_drafting = [] { throw std::runtime_error("out of range"); };
  const auto thrown = Answer(*engine, Request(7, 3));
  EXPECT_EQ(thrown.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(thrown.status().message()),
              HasSubstr("drafter quick: INTERNAL: out of range"));
  EXPECT_THAT(notes_.forgotten, ElementsAre(7));
  notes_.while_drafting = [] { throw 3; };
  EXPECT_EQ(Answer(*engine, Request(8, 1)).status().code(),
            absl::StatusCode::kInternal);

  notes_.while_drafting = [] {};
  ProposeRequest next = Request(7, 1);
  next.update.base_length = 3;
  next.update.prefix_hash = PrefixHash(std::vector<TokenId>(3, 1));
  EXPECT_EQ(HeldLength(Answer(*engine, std::move(next)).status()), 0)
      << "the sequence begins anew";
  EXPECT_TRUE(Answer(*engine, Request(7, 4)).ok());
}

}  // namespace
}  // namespace espalier::drafter
