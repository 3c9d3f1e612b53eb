// Thousands of schedules of faults, cancels and deadlines. In each, a client
// sees a prefix of the plain text, or all of it if the request succeeds, is
// told the end once, and no peer keeps a sequence.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  bool OneIn(uint64_t n) { return random_() % n == 0; }
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  absl::Duration UpTo(absl::Duration limit) {
    return limit * (static_cast<double>(Below(1000)) / 1000);
  }

 private:
  std::mt19937_64 random_;
};

void Spoil(Dice& dice, Proposal& proposal) {
  TokenTree& tree = proposal.tree;
  switch (dice.Below(9)) {
    case 0:
      tree.parents.back() = static_cast<int32_t>(tree.num_nodes());
      break;
    case 1:
      tree.tokens.back() = -7;
      break;
    case 2:
      tree.log_probs.back() = NAN;
      break;
    case 3:
      for (int i = 0; i < 100; ++i) tree.Add(0, 1, -9.0f);
      break;
    case 4:
      ++proposal.committed_length;
      break;
    case 5:
      --proposal.round;
      break;
    case 6:
      tree.tokens[0] = (tree.tokens[0] + 1) % 50;
      break;
    case 7:  // valid, and wrong
      tree.tokens.back() = (tree.tokens.back() + 1) % 50;
      break;
    case 8:
      tree = TokenTree::RootOnly(tree.tokens[0]);
      break;
  }
}

FakeDraftEndpoint::Behaviour RandomDrafter(Dice& dice) {
  FakeDraftEndpoint::Behaviour behaviour;
  if (dice.OneIn(2)) behaviour.delay = dice.UpTo(absl::Milliseconds(120));
  if (dice.OneIn(30)) behaviour.delay = kHeld;
  if (dice.OneIn(20)) behaviour.lose_state = true;
  if (dice.OneIn(15)) behaviour.error = absl::UnavailableError("gone");
  if (dice.OneIn(20)) behaviour.error = absl::InternalError("bug");
  if (dice.OneIn(40)) behaviour.error = StaleBaseError(dice.Below(30), 0);
  if (dice.OneIn(8)) {
    behaviour.corrupt = [&dice](Proposal& p) { Spoil(dice, p); };
  }
  if (dice.OneIn(2)) {
    behaviour.part = FakeDraftEndpoint::FirstNodes(dice.Below(8));
    if (dice.OneIn(20)) {
      behaviour.part = [&dice](Proposal& p) { Spoil(dice, p); };
    }
    behaviour.part_delay =
        dice.UpTo(std::min(behaviour.delay, absl::Milliseconds(120)));
  }
  return behaviour;
}

FakeVerifyEndpoint::Behaviour RandomVerifier(Dice& dice) {
  FakeVerifyEndpoint::Behaviour behaviour;
  if (dice.OneIn(2)) behaviour.delay = dice.UpTo(absl::Milliseconds(80));
  if (dice.OneIn(12)) behaviour.lose_state = true;
  if (dice.OneIn(10)) behaviour.error = absl::UnavailableError("away");
  if (dice.OneIn(10)) behaviour.lost_reply = absl::UnavailableError("reset");
  if (dice.OneIn(100)) behaviour.error = absl::ResourceExhaustedError("full");
  if (dice.OneIn(300)) behaviour.error = absl::InternalError("broken");
  if (dice.OneIn(300)) behaviour.delay = kHeld;
  return behaviour;
}

GenerationRequest RandomRequest(Dice& dice, absl::Time now) {
  GenerationRequest request;
  request.request_id = std::to_string(dice.Below(1000000));
  request.prompt.resize(1 + dice.Below(20));
  for (TokenId& token : request.prompt) token = dice.Below(50);
  request.max_tokens = 1 + dice.Below(60);
  request.ignore_eos = dice.OneIn(2);
  if (dice.OneIn(2))
    request.stop_token_ids = {static_cast<TokenId>(dice.Below(50))};
  if (dice.OneIn(4)) request.deadline = now + dice.UpTo(absl::Seconds(2));
  request.speculation.enabled = !dice.OneIn(10);
  request.speculation.max_nodes = dice.Below(20);
  request.speculation.max_depth = dice.Below(8);
  const char* const strategies[] = {"single", "union", "route", "budgeted"};
  request.speculation.strategy = strategies[dice.Below(4)];
  if (dice.OneIn(2)) request.speculation.max_nodes.reset();
  return request;
}

struct Client {
  GenerationRequest request;
  Coordinator::Ticket ticket = 0;
  Seen seen;
};

void CheckClient(const ToyCluster& cluster, const Client& client) {
  const Seen& seen = client.seen;
  ASSERT_EQ(seen.num_finishes, 1);
  const std::vector<TokenId> plain = cluster.PlainText(client.request);
  ASSERT_LE(seen.tokens.size(), plain.size());
  EXPECT_EQ(
      seen.tokens,
      std::vector<TokenId>(plain.begin(), plain.begin() + seen.tokens.size()));
  if (seen.status.ok()) {
    EXPECT_EQ(seen.tokens.size(), plain.size());
  }
  const FinishReason reason = seen.report.finish_reason;
  EXPECT_EQ(seen.status.ok(),
            reason == FinishReason::kStop || reason == FinishReason::kLength);
  EXPECT_EQ(seen.report.usage.completion_tokens,
            static_cast<int64_t>(seen.tokens.size()));
  EXPECT_EQ(seen.report.spec.num_emitted,
            static_cast<int64_t>(seen.tokens.size()));
  EXPECT_EQ(seen.report.spec.num_spec_steps,
            static_cast<int64_t>(seen.steps.size()));
}

// Returns how many requests succeeded.
int RunSchedule(uint64_t seed) {
  Dice dice(seed);
  const int num_drafters = static_cast<int>(dice.Below(4));
  ToyCluster cluster(num_drafters,
                     {.max_sessions = 1 + dice.Below(3), .max_queued = 10});
  for (auto& drafter : cluster.drafters) {
    drafter->Behave([&dice] { return RandomDrafter(dice); });
    drafter->supports_lookahead = dice.OneIn(2);
  }
  cluster.verifier.Behave([&dice] { return RandomVerifier(dice); });

  std::vector<Client> clients(1 + dice.Below(4));
  for (Client& client : clients) {
    client.request = RandomRequest(dice, cluster.executor.Now());
    client.ticket = cluster.Start(client.request, &client.seen);
    if (dice.OneIn(4)) {
      cluster.executor.PostAt(
          cluster.executor.Now() + dice.UpTo(absl::Seconds(1)),
          [&] { cluster.coordinator->Cancel(client.ticket); });
    }
    if (dice.OneIn(2)) {
      cluster.executor.AdvanceBy(dice.UpTo(absl::Milliseconds(300)));
    }
  }
  for (int i = 0; i < 4; ++i) {
    cluster.executor.AdvanceBy(absl::Seconds(5));
    for (auto& drafter : cluster.drafters) drafter->Release();
  }
  cluster.executor.AdvanceBy(absl::Hours(1));
  cluster.verifier.Release();
  cluster.executor.RunUntilIdle();

  int num_good = 0;
  for (const Client& client : clients) {
    CheckClient(cluster, client);
    if (client.seen.status.ok()) ++num_good;
  }
  cluster.ExpectNothingOpen();
  return num_good;
}

void RunSchedules(uint64_t first_seed, int count) {
  int num_good = 0;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    SCOPED_TRACE(seed);
    num_good += RunSchedule(seed);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_good, count);  // of 2.5 times as many: faults are survivable
}

TEST(RandomFaultsTest, TextIsThePlainTextWhateverHappens) {
  RunSchedules(0, 1000);
}

TEST(RandomFaultsTest, NightlyTextIsThePlainTextWhateverHappens) {
  RunSchedules(1000, 3000);
}

// Every millisecond at which a request can be cancelled or run out of time;
// its peers take several each.
enum class End { kCancel, kDeadline };

void EndAfter(End end, int milliseconds, bool* finished_first) {
  ToyCluster cluster(2);
  cluster.drafters[0]->Behave({.delay = absl::Milliseconds(3)});
  cluster.drafters[1]->Behave({.delay = absl::Milliseconds(60)});
  cluster.verifier.Behave({.delay = absl::Milliseconds(5)});
  Client client = {.request = ToyCluster::Request(20)};
  const absl::Duration patience = absl::Milliseconds(milliseconds);
  if (end == End::kDeadline) {
    client.request.deadline = cluster.executor.Now() + patience;
  }
  client.ticket = cluster.Start(client.request, &client.seen);
  cluster.executor.AdvanceBy(patience);
  *finished_first = client.seen.status.ok() && client.seen.num_finishes == 1;
  if (end == End::kCancel) cluster.coordinator->Cancel(client.ticket);
  cluster.executor.RunUntilIdle();
  CheckClient(cluster, client);
  cluster.ExpectNothingOpen();
  if (!*finished_first) {
    EXPECT_EQ(client.seen.status.code(),
              end == End::kCancel ? absl::StatusCode::kCancelled
                                  : absl::StatusCode::kDeadlineExceeded);
  }
  cluster.executor.AdvanceBy(absl::Hours(1));  // late answers
}

class EndAtEveryMomentTest : public testing::TestWithParam<End> {};

TEST_P(EndAtEveryMomentTest, FreesEveryPeerAtOnce) {
  bool finished_first = false;
  int moment = 0;
  for (; !finished_first && moment < 1000; ++moment) {
    SCOPED_TRACE(moment);
    EndAfter(GetParam(), moment, &finished_first);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moment, 50);
  EXPECT_TRUE(finished_first);
}

INSTANTIATE_TEST_SUITE_P(Ends, EndAtEveryMomentTest,
                         testing::Values(End::kCancel, End::kDeadline));

}  // namespace
}  // namespace espalier::coordinator
