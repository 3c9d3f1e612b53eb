// Features that the verifier leaves in a ring on its device: who reads them
// there, and who gets them with its requests.

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"
#include "tests/coordinator/wanted_features.h"

namespace espalier::coordinator {
namespace {

using Behaviour = FakeDraftEndpoint::Behaviour;

constexpr uint64_t kRing = 77, kDevice = 5;

// A cluster in which the first drafters are on the verifier's device.
struct RingCluster : ToyCluster {
  RingCluster(int num_drafters, int num_on_device) : ToyCluster(num_drafters) {
    SetRing(kRing);
    for (int i = 0; i < num_drafters; ++i) {
      drafters[i]->wanted = Taps({i, i + 2});
      drafters[i]->device_id = i < num_on_device ? kDevice : kDevice + 1;
    }
  }
  void SetRing(uint64_t id) {
    verifier.ring_id = id;
    info->ring = {.id = id, .device_id = kDevice, .data_bytes = 1 << 20};
  }
};

// Expects that no request of the drafter has features, and each that follows a
// verification has those of the ring that it lacks, up to its root.
void ExpectStored(const FakeDraftEndpoint& drafter, size_t from_request = 0) {
  int64_t next = 0;
  for (size_t i = from_request; i < drafter.requests().size(); ++i) {
    const ProposeRequest& asked = drafter.requests()[i];
    EXPECT_TRUE(asked.features.empty());
    EXPECT_EQ(asked.stored.empty(), i == from_request);
    if (asked.stored.empty()) continue;
    EXPECT_EQ(asked.stored.ring.id, kRing);
    EXPECT_EQ(asked.stored.first_position(), next);
    next = asked.stored.end_position();
    EXPECT_EQ(next, asked.update.committed_length() - 1);
  }
}

TEST(RingFeaturesTest, NoneAreSentWhereAllReadTheRing) {
  RingCluster cluster(2, 2);
  const auto request = ToyCluster::Request(30);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_TRUE(round.features.taps.empty());
    EXPECT_FALSE(round.features.deferred);
    EXPECT_EQ(round.features.store,
              (std::vector<std::vector<int32_t>>{{0, 2}, {1, 3}}));
  }
  for (const auto& drafter : cluster.drafters) ExpectStored(*drafter);
  for (const auto& status : cluster.coordinator->Drafters()) {
    EXPECT_EQ(status.features, Coordinator::FeaturePath::kDeviceRing);
  }
}

TEST(RingFeaturesTest, ADrafterElsewhereGetsItsOwn) {
  RingCluster cluster(3, 1);
  cluster.drafters[2]->device_id = 0;  // a CPU
  const auto request = ToyCluster::Request(30);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_EQ(round.features.taps, (std::vector<int32_t>{1, 2, 3, 4}));
    EXPECT_EQ(round.features.store,
              (std::vector<std::vector<int32_t>>{{0, 2}}));
  }
  ExpectStored(*cluster.drafters[0]);
  for (int i : {1, 2}) {
    const FakeDraftEndpoint& remote = *cluster.drafters[i];
    EXPECT_EQ(remote.last_features().first_position, 0);
    EXPECT_EQ(remote.last_features().end_position(), RootOf(remote));
    EXPECT_EQ(cluster.coordinator->Drafters()[i].features,
              Coordinator::FeaturePath::kBytes);
  }
}

TEST(RingFeaturesTest, AVerifierWithoutARingSendsThem) {
  RingCluster cluster(1, 1);
  cluster.SetRing(0);
  cluster.Run(ToyCluster::Request(30));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_TRUE(round.features.store.empty());
  }
  const FakeDraftEndpoint& drafter = *cluster.drafters[0];
  EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
}

// A contract that the target lacks would be the client's error.
TEST(RingFeaturesTest, TapsThatTheTargetLacksAreNotStored) {
  RingCluster cluster(1, 1);
  cluster.drafters[0]->wanted = Taps({1, 99});
  const auto request = ToyCluster::Request(30);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_TRUE(round.features.store.empty());
  }
}

// They were overwritten, say. The other drafter's are still read.
TEST(RingFeaturesTest, AreSentOnceADrafterLacksThem) {
  RingCluster cluster(2, 2);
  FakeDraftEndpoint& drafter = *cluster.drafters[1];
  drafter.Behave([&drafter] {
    Behaviour behaviour;
    if (drafter.requests().size() == 3) {
      behaviour.corrupt = [](Proposal& p) { p.lacks_features = true; };
    }
    return behaviour;
  });
  const auto request = ToyCluster::Request(80);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  EXPECT_GT(drafter.requests().size(), 5u);
  EXPECT_TRUE(drafter.requests().back().stored.empty());
  EXPECT_GT(drafter.last_features().first_position, 5);
  EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
  ExpectStored(*cluster.drafters[0]);
  // The next session reads the ring.
  const size_t before = drafter.requests().size();
  cluster.Run(request);
  ExpectStored(drafter, before);
}

// The drafter finds the ring gone before the coordinator knows that the
// verifier has started again, or a late answer says so about the ring before.
TEST(RingFeaturesTest, ARingThatWentWithItsVerifierSaysNothingAboutTheNext) {
  for (const bool is_unreadable : {false, true}) {
    RingCluster cluster(1, 1);
    FakeDraftEndpoint& drafter = *cluster.drafters[0];
    cluster.verifier.Behave([&] {
      FakeVerifyEndpoint::Behaviour behaviour;
      behaviour.lose_state = cluster.verifier.requests().size() == 4;
      if (behaviour.lose_state) cluster.SetRing(kRing + 1);
      return behaviour;
    });
    drafter.Behave([&] {
      Behaviour behaviour;
      if (cluster.verifier.requests().size() == 3) {
        behaviour.corrupt = [is_unreadable](Proposal& p) {
          p.lacks_features = true;
          p.ring_unreadable = is_unreadable;
        };
      }
      return behaviour;
    });
    const auto request = ToyCluster::Request(120);
    EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
    for (const ProposeRequest& asked : drafter.requests()) {
      EXPECT_TRUE(asked.features.empty());
    }
    EXPECT_EQ(drafter.requests().back().stored.ring.id, kRing + 1);
    EXPECT_EQ(drafter.last_stored_end(), RootOf(drafter));
  }
}

// Its container has IPC of its own, say: no further session loses the features
// of its prompt, until another process may be able to read it.
TEST(RingFeaturesTest, ARingThatCannotBeReadIsNotTriedAgain) {
  RingCluster cluster(1, 1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  bool is_down = false;
  drafter.Behave([&] {
    Behaviour behaviour;
    if (is_down) behaviour.error = absl::UnavailableError("down");
    behaviour.corrupt = [&drafter](Proposal& p) {
      if (drafter.requests().back().stored.empty()) return;
      p.lacks_features = p.ring_unreadable = true;
    };
    return behaviour;
  });
  const auto request = ToyCluster::Request(30);
  cluster.Run(request);
  EXPECT_GT(drafter.last_features().first_position, 0);
  EXPECT_EQ(cluster.coordinator->Drafters()[0].features,
            Coordinator::FeaturePath::kBytes);
  const size_t before = drafter.requests().size();
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  for (size_t i = before; i < drafter.requests().size(); ++i) {
    EXPECT_TRUE(drafter.requests()[i].stored.empty());
  }
  EXPECT_EQ(drafter.last_features().first_position, 0);
  EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
  is_down = true;
  cluster.Run(request);
  EXPECT_EQ(cluster.coordinator->Drafters()[0].features,
            Coordinator::FeaturePath::kDeviceRing);
}

// The verifier had no room for them.
TEST(RingFeaturesTest, AreSentOnceTheVerifierDoesNotStoreThem) {
  RingCluster cluster(1, 1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  cluster.verifier.Behave([&cluster] {
    FakeVerifyEndpoint::Behaviour behaviour;
    if (cluster.verifier.requests().size() == 4) {
      behaviour.corrupt = [](VerifyResult& result) {
        result.stored.contracts[0].clear();
      };
    }
    return behaviour;
  });
  const auto request = ToyCluster::Request(80);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  EXPECT_TRUE(drafter.requests().back().stored.empty());
  EXPECT_GT(drafter.last_features().first_position, 5);
  EXPECT_EQ(drafter.last_features().end_position(), RootOf(drafter));
}

TEST(RingFeaturesTest, ADrafterThatRestartedReadsAllAgain) {
  RingCluster cluster(1, 1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.Behave([&drafter] {
    return Behaviour{.lose_state = drafter.requests().size() == 4};
  });
  const auto request = ToyCluster::Request(60);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  bool read_all = false;
  for (const ProposeRequest& asked : drafter.requests()) {
    EXPECT_TRUE(asked.features.empty());
    read_all |= asked.update.base_length == 0 && !asked.stored.empty() &&
                asked.stored.first_position() == 0;
  }
  EXPECT_TRUE(read_all);
  EXPECT_EQ(drafter.last_stored_end(), RootOf(drafter));
}

// Its hello comes before or after the first result of the new ring.
TEST(RingFeaturesTest, AVerifierThatRestartedHasAnotherRing) {
  for (bool hello_is_late : {false, true}) {
    RingCluster cluster(1, 1);
    FakeDraftEndpoint& drafter = *cluster.drafters[0];
    cluster.verifier.Behave([&] {
      const size_t round = cluster.verifier.requests().size();
      if (round == 4) cluster.verifier.ring_id = kRing + 1;
      if (round == (hello_is_late ? 6 : 4)) cluster.SetRing(kRing + 1);
      return FakeVerifyEndpoint::Behaviour{.lose_state = round == 4};
    });
    const auto request = ToyCluster::Request(120);
    EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
    int64_t next = 0;
    for (const ProposeRequest& asked : drafter.requests()) {
      EXPECT_TRUE(asked.features.empty());
      if (asked.stored.empty()) continue;
      EXPECT_EQ(asked.stored.first_position(), next) << "nothing is missing";
      next = asked.stored.end_position();
    }
    EXPECT_EQ(drafter.requests().back().stored.ring.id, kRing + 1);
    EXPECT_EQ(drafter.last_stored_end(), RootOf(drafter));
  }
}

// It starts again on the verifier's device, in the middle of a text.
TEST(RingFeaturesTest, AreSentNoMoreOnceTheDrafterReadsTheRing) {
  RingCluster cluster(1, /*num_on_device=*/0);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.Behave([&drafter] {
    Behaviour behaviour;
    if (drafter.requests().size() == 4) {
      behaviour.error = absl::UnavailableError("it restarts");
      behaviour.lose_state = true;
      drafter.device_id = kDevice;
    }
    return behaviour;
  });
  const auto request = ToyCluster::Request(120);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  const std::vector<VerifyRequest>& rounds = cluster.verifier.requests();
  EXPECT_FALSE(rounds.front().features.taps.empty());
  EXPECT_TRUE(rounds.front().features.store.empty());
  EXPECT_TRUE(rounds.back().features.taps.empty());
  EXPECT_FALSE(rounds.back().features.store.empty());
}

// Rings come and go, and features are sent or read by turns.
TEST(RingFeaturesTest, AnyOrderOfFaultsEndsWithTheRightFeaturesOrNone) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RingCluster cluster(3, 2);
    std::mt19937_64 random(seed);
    for (auto& drafter : cluster.drafters) {
      drafter->Behave([&random] {
        Behaviour behaviour;
        if (random() % 8 == 0) behaviour.error = absl::UnavailableError("off");
        behaviour.lose_state = random() % 8 == 0;
        if (random() % 16 == 0) {
          behaviour.corrupt = [lost = random() % 2 == 0](Proposal& p) {
            p.lacks_features = true;
            p.ring_unreadable = lost;
          };
        }
        return behaviour;
      });
    }
    cluster.verifier.Behave([&random, &cluster] {
      FakeVerifyEndpoint::Behaviour behaviour;
      behaviour.lose_state = random() % 8 == 0;
      if (behaviour.lose_state) cluster.SetRing(kRing + random() % 3);
      if (random() % 16 == 0) behaviour.lost_reply = absl::UnavailableError("");
      if (random() % 16 == 0) {
        behaviour.corrupt = [](VerifyResult& result) {
          result.stored.contracts.clear();
        };
      }
      return behaviour;
    });
    const auto request = ToyCluster::Request(80);
    EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace espalier::coordinator
