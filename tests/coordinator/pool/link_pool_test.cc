#include "coordinator/pool/link_pool.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/pool/fake_link.h"

namespace espalier::coordinator {
namespace {

using Pool = LinkPool<FakeVerifierLink>;

class LinkPoolTest : public ::testing::Test {
 protected:
  // A replica that is connected, of a model with these weights.
  void Serve(const std::string& address, uint64_t weights = 1) {
    auto& replica = replicas_[address];
    replica.status = {.state = PeerState::kReady};
    replica.info = VerifierInfo();
    replica.info->model = {.name = "toy", .weights_fingerprint = weights};
    if (replica.endpoint == nullptr) {
      replica.endpoint =
          std::make_unique<FakeVerifyEndpoint>(nullptr, ToyTarget());
    }
  }
  void Lose(const std::string& address) {
    replicas_[address].status = {.state = PeerState::kConnecting,
                                 .reason = "gone"};
  }

  // Where a session is, which begins anew if it has to.
  std::string PlaceOf(uint64_t session) {
    auto route = pool_.RouteOf({.number = session}, session, /*opens=*/false);
    if (route.is_stale) {
      route = pool_.RouteOf({.number = session}, session, /*opens=*/true);
    }
    return route.member ? route.member->address : "";
  }
  std::string Begin(uint64_t session) {
    const auto route = pool_.RouteOf({.number = session}, session, true);
    return route.member ? route.member->address : "";
  }

  std::map<std::string, FakeVerifierLink::Replica> replicas_;
  prometheus::Registry metrics_;
  Pool pool_{{.name = "verifier",
              .new_link =
                  [this](const std::string& address) {
                    return std::make_unique<FakeVerifierLink>(
                        &replicas_[address]);
                  },
              .model_of = [](const VerifierInfo& info) { return info.model; },
              .registry = &metrics_}};
};

TEST_F(LinkPoolTest, ASessionStaysAndMovesOnlyIfItsReplicaIsLost) {
  for (const char* address : {"a", "b", "c"}) Serve(address);
  pool_.SetAddresses({"a", "b", "c"});
  std::map<uint64_t, std::string> places;
  std::set<std::string> used;
  for (uint64_t session = 1; session <= 30; ++session) {
    used.insert(places[session] = Begin(session));
  }
  EXPECT_EQ(used.size(), 3u);
  for (const auto& [session, place] : places) {
    EXPECT_EQ(PlaceOf(session), place);
  }
  Lose("b");
  for (const auto& [session, place] : places) {
    const auto route = pool_.RouteOf({.number = session}, 0, false);
    EXPECT_EQ(route.is_stale, place == "b");
    EXPECT_NE(PlaceOf(session), "b");
    if (place == "b") continue;
    EXPECT_EQ(PlaceOf(session), place);
  }
}

TEST_F(LinkPoolTest, SessionsThatEndMakeRoom) {
  Serve("a");
  Serve("b");
  pool_.SetAddresses({"a", "b"});
  for (uint64_t session = 1; session <= 9; ++session) Begin(session);
  for (uint64_t session = 1; session <= 9; ++session) {
    Lose("a");
    Lose("b");  // nothing is sent to a replica that is gone
    pool_.EndSequence({.number = session});
  }
  for (const auto& link : pool_.Links()) EXPECT_EQ(link.sessions, 0);
}

TEST_F(LinkPoolTest, ADrainingReplicaGetsNothingWhileThereAreOthers) {
  Serve("a");
  Serve("b");
  pool_.SetAddresses({"a", "b"});
  replicas_["a"].status.draining = true;
  for (uint64_t session = 1; session <= 8; ++session) {
    EXPECT_EQ(Begin(session), "b");
  }
  Lose("b");
  EXPECT_EQ(PlaceOf(1), "a") << "the only one";
  EXPECT_EQ(PlaceOf(1), "a");
}

// The weights that began a text end it.
TEST_F(LinkPoolTest, ATextIsNotContinuedByOtherWeights) {
  Serve("a", 1);
  Serve("b", 1);
  Serve("c", 2);
  pool_.SetAddresses({"a", "b", "c"});
  EXPECT_EQ(pool_.Reference()->model.weights_fingerprint, 1u) << "most have it";
  for (uint64_t session = 1; session <= 20; ++session) {
    EXPECT_NE(Begin(session), "c");
  }
  Lose("a");
  for (uint64_t session = 1; session <= 20; ++session) {
    EXPECT_EQ(PlaceOf(session), "b");
  }
  Lose("b");
  const auto route = pool_.RouteOf({.number = 1}, 1, /*opens=*/true);
  EXPECT_EQ(route.member, nullptr);
  EXPECT_TRUE(route.is_stale) << "its owner learns that the model is another";
  EXPECT_EQ(Begin(21), "c");
  // A replica that restarts with other weights is another one.
  Serve("b", 2);
  EXPECT_EQ(PlaceOf(2), "");
}

TEST_F(LinkPoolTest, NothingIsConnected) {
  pool_.SetAddresses({});
  EXPECT_EQ(Begin(1), "");
  EXPECT_FALSE(pool_.RouteOf({.number = 1}, 1, false).is_stale);
  EXPECT_FALSE(pool_.Reference().has_value());
  EXPECT_EQ(pool_.status().state, PeerState::kConnecting);
  Serve("a");
  pool_.SetAddresses({"a"});
  EXPECT_EQ(PlaceOf(1), "a");
}

TEST_F(LinkPoolTest, AFailedReplicaIsTriedLast) {
  for (const char* address : {"a", "b", "c"}) Serve(address);
  pool_.SetAddresses({"a", "b", "c"});
  std::set<std::string> tried;
  for (int i = 0; i < 3; ++i) {
    const auto route = pool_.RouteOf({.number = 5}, 5, true);
    tried.insert(route.member->address);
    route.member->link->Verify({.update = {.sequence = {.number = 5},
                                           .prefix_hash = kEmptyPrefixHash,
                                           .new_tokens = {1}},
                                .tree = TokenTree::RootOnly(1)},
                               absl::InfiniteFuture(), [](auto) {});
    EXPECT_EQ(pool_.OnUnavailable({.number = 5}, route.member.get()), i < 2)
        << "then its caller pauses";
  }
  EXPECT_GE(tried.size(), 2u);
}

// A resolver may lag behind, and answer nothing for a while.
TEST_F(LinkPoolTest, AnAddressThatIsNoLongerListedStaysWhileItIsConnected) {
  Serve("a");
  Serve("b");
  pool_.SetAddresses({"a", "b"});
  pool_.SetAddresses({"b"});
  EXPECT_EQ(pool_.size(), 2);
  EXPECT_EQ(replicas_["a"].num_links, 1);
  Lose("a");
  pool_.SetAddresses({"b"});
  EXPECT_EQ(pool_.size(), 1);
  EXPECT_EQ(replicas_["a"].num_links, 0) << "nobody dials it any more";
  Lose("b");
  pool_.SetAddresses({"b"});
  EXPECT_EQ(replicas_["b"].num_links, 1) << "listed: dialled again and again";
  // A stale address is dialled, and hurts nobody.
  Lose("old");
  Serve("b");
  pool_.SetAddresses({"b", "old"});
  for (uint64_t session = 1; session <= 8; ++session) {
    EXPECT_EQ(Begin(session), "b");
  }
}

}  // namespace
}  // namespace espalier::coordinator
