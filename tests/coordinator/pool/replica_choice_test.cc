#include "coordinator/pool/replica_choice.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

std::vector<Replica> Replicas(int count) {
  std::vector<Replica> replicas;
  for (int i = 0; i < count; ++i) {
    replicas.push_back({.key = ReplicaKey(absl::StrCat("10.0.0.", i, ":1"))});
  }
  return replicas;
}

// Places that sessions get as they come one after another.
std::vector<size_t> Place(const std::vector<uint64_t>& sessions,
                          std::vector<Replica> replicas) {
  std::vector<size_t> places;
  for (const uint64_t session : sessions) {
    places.push_back(ChooseReplica(session, replicas));
    ++replicas[places.back()].load;
  }
  return places;
}

std::vector<uint64_t> RandomSessions(std::mt19937_64& random, int count,
                                     uint64_t kinds) {
  std::vector<uint64_t> sessions;
  for (int i = 0; i < count; ++i) sessions.push_back(random() % kinds);
  return sessions;
}

// Whatever sessions come and go, and however few texts they begin with.
TEST(ReplicaChoiceTest, TheLoadIsBoundedAtEveryChoice) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Replica> replicas = Replicas(1 + trial % 13);
    const uint64_t kinds = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 5 : ~0ull;
    std::vector<size_t> live;
    for (int step = 0; step < 300; ++step) {
      if (!live.empty() && random() % 3 == 0) {
        const size_t gone = random() % live.size();
        --replicas[live[gone]].load;
        live.erase(live.begin() + static_cast<int64_t>(gone));
        continue;
      }
      const size_t chosen = ChooseReplica(random() % kinds, replicas);
      ++replicas[chosen].load;
      live.push_back(chosen);
      const double mean = static_cast<double>(live.size()) / replicas.size();
      ASSERT_LE(replicas[chosen].load, std::ceil(kMaxOverMean * mean));
    }
  }
}

// Where the bound does not act, a new replica takes its share from all others,
// and moves nothing between them.
TEST(ReplicaChoiceTest, AChangeMovesOnlyWhatItMust) {
  std::mt19937_64 random(2);
  for (int count : {1, 2, 3, 8, 40}) {
    const std::vector<Replica> before = Replicas(count);
    const std::vector<Replica> after = Replicas(count + 1);
    constexpr int kSessions = 4000;
    int moved = 0;
    for (int i = 0; i < kSessions; ++i) {
      const uint64_t session = random();
      const size_t old_place = ChooseReplica(session, before);
      const size_t new_place = ChooseReplica(session, after);
      if (old_place == new_place) continue;
      ++moved;
      ASSERT_EQ(new_place, static_cast<size_t>(count)) << "to the new one only";
    }
    const double share = static_cast<double>(kSessions) / (count + 1);
    EXPECT_NEAR(moved, share, 5 * std::sqrt(share));
  }
}

// With the bound in force, few others move: those that a full replica had sent
// away.
TEST(ReplicaChoiceTest, FewMoveUnderLoad) {
  std::mt19937_64 random(3);
  for (int count : {4, 8, 16}) {
    const auto sessions = RandomSessions(random, 2000, ~0ull);
    const auto before = Place(sessions, Replicas(count));
    const auto after = Place(sessions, Replicas(count + 1));
    int moved = 0;
    for (size_t i = 0; i < sessions.size(); ++i) moved += before[i] != after[i];
    EXPECT_LE(moved, 2 * std::ssize(sessions) / (count + 1));
  }
}

TEST(ReplicaChoiceTest, TextsThatBeginAlikeShareAReplica) {
  std::vector<TokenId> one(kRoutedTokens + 50, 7);
  std::vector<TokenId> other = one;
  other.back() = 8;
  EXPECT_EQ(TextKey(one, "s"), TextKey(other, "s"));
  EXPECT_NE(TextKey(one, "s"), TextKey(one, "t"));
  other[kRoutedTokens - 1] = 8;
  EXPECT_NE(TextKey(one, "s"), TextKey(other, "s"));
  const std::vector<TokenId> text = {7, 8};
  EXPECT_NE(TextKey(text, ""), TextKey({}, ""));
}

TEST(ReplicaChoiceTest, TheOrderOfTheReplicasDoesNotMatter) {
  std::mt19937_64 random(4);
  std::vector<Replica> replicas = Replicas(9);
  for (int i = 0; i < 200; ++i) {
    const uint64_t session = random();
    const uint64_t key = replicas[ChooseReplica(session, replicas)].key;
    std::shuffle(replicas.begin(), replicas.end(), random);
    EXPECT_EQ(replicas[ChooseReplica(session, replicas)].key, key);
  }
}

}  // namespace
}  // namespace espalier::coordinator
