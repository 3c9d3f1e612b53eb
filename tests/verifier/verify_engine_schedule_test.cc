// Random requests of several sessions: every one is answered once, and every
// text is that of plain decoding.

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/spec/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier/engine_harness.h"

namespace espalier::verifier {
namespace {

using absl::Milliseconds;
using ::testing::IsEmpty;

// A client that drafts, waits, asks again, gives up, and starts over.
struct Wanderer {
  Client client;
  VerifyRequest request = {};
  std::vector<std::shared_ptr<Reply>> replies = {};  // unanswered, or just so
};

class RandomSchedule : public ::testing::TestWithParam<int> {
 protected:
  TokenTree RandomTree(const Client& client) {
    TokenTree tree = TokenTree::RootOnly(client.text.back());
    const Text next = PlainText(harness_.script, client.text, client.sampling,
                                client.text.size() + random_() % 5);
    int32_t node = 0;
    for (size_t i = client.text.size(); i < next.size(); ++i) {
      if (random_() % 2) tree.Add(node, next[i] / 2, 0.0f);
      node = tree.Add(node, next[i], 0.0f);
    }
    return tree;
  }

  void Ask(Wanderer& one) {
    Client& client = one.client;
    if (random_() % 10 == 0) client.held = random_() % (client.held + 1);
    one.request = client.Request(RandomTree(client));
    const absl::Time deadline =
        random_() % 5 ? absl::InfiniteFuture()
                      : harness_.executor->Now() + Milliseconds(random_() % 20);
    one.replies.push_back(harness_.Send(one.request, deadline));
  }

  void Read(Wanderer& one) {
    for (const auto& reply : std::exchange(one.replies, {})) {
      if (!reply->value) {
        one.replies.push_back(reply);
        continue;
      }
      ASSERT_EQ(reply->times_answered, 1);
      const absl::StatusOr<VerifyResult>& verify_result = *reply->value;
      if (verify_result.ok()) {
        // Asked twice, it may be answered twice.
        if (verify_result->round == one.client.round)
          one.client.Commit(*verify_result);
        ++num_verify_results_;
      } else if (const auto held = HeldLength(verify_result.status())) {
        one.client.held = *held;
      } else {
        ASSERT_TRUE(absl::IsCancelled(verify_result.status()) ||
                    absl::IsDeadlineExceeded(verify_result.status()) ||
                    absl::IsInternal(verify_result.status()) ||
                    absl::IsResourceExhausted(verify_result.status()))
            << verify_result.status();
        ++num_errors_;
      }
    }
    ASSERT_EQ(one.client.text,
              PlainText(harness_.script, prompt(one), one.client.sampling,
                        one.client.text.size()));
  }

  Text prompt(const Wanderer& one) const {
    return Text(5 + 9 * one.client.id.number,
                static_cast<TokenId>(one.client.id.number));
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam())};
  EngineHarness harness_{
      {.max_context = 160, .pool_tokens = 420},
      {.max_tree_nodes = 12,
       .max_batch_rows = 1 + static_cast<int64_t>(random_() % 48)}};
  int num_verify_results_ = 0;
  int num_errors_ = 0;
};

TEST_P(RandomSchedule, EveryRequestIsAnsweredOnceAndEveryTextIsThePlainOne) {
  std::vector<Wanderer> all;
  for (uint64_t i = 0; i < 6; ++i) {
    all.push_back({.client = {.id = {3, i},
                              .sampling = {.temperature = i % 2 ? 1.0f : 0.0f,
                                           .seed = i}}});
    all[i].client.text = prompt(all[i]);
  }
  harness_.model->set_pass_hook([&](absl::Span<const SequenceRows>) {
    harness_.executor->MoveClock(Milliseconds(random_() % 4));
    return random_() % 20 ? absl::OkStatus() : absl::UnknownError("bad luck");
  });
  for (int step = 0; step < 1500; ++step) {
    Wanderer& one = all[random_() % all.size()];
    if (one.replies.empty()) {
      if (one.client.text.size() > 120) break;
      Ask(one);
    } else if (random_() % 6 == 0) {
      one.replies.push_back(harness_.Send(one.request));
    } else if (random_() % 10 == 0) {
      harness_.engine->EndSequence(one.client.id);
    }
    for (uint64_t run = random_() % 4; run > 0; --run) {
      harness_.executor->RunOne();
    }
    ASSERT_NO_FATAL_FAILURE(Read(one));
  }
  // Sessions that wait for K/V room get it when the holders stop sending
  // requests.
  harness_.executor->AdvanceBy(absl::Seconds(10));
  for (Wanderer& one : all) {
    ASSERT_NO_FATAL_FAILURE(Read(one));
    EXPECT_THAT(one.replies, IsEmpty());
    harness_.engine->EndSequence(one.client.id);
  }
  harness_.executor->RunUntilIdle();
  EXPECT_EQ(harness_.model->num_sequences(), 0);
  EXPECT_GT(num_verify_results_, 50);
  EXPECT_GT(num_errors_, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, ::testing::Range(0, 25));

}  // namespace
}  // namespace espalier::verifier
