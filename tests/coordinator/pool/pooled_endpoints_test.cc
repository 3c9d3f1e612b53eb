// A coordinator on pools of fake replicas, which are lost in mid-text.

#include "coordinator/pool/pooled_endpoints.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/pool/fake_link.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

class PooledEndpointsTest : public ::testing::Test {
 protected:
  PooledEndpointsTest() {
    for (const char* address : {"a", "b"}) {
      auto& verifier = verifiers_[address];
      verifier.info = ToyCluster::ToyVerifierInfo();
      verifier.endpoint =
          std::make_unique<FakeVerifyEndpoint>(&executor_, ToyTarget());
      auto& drafter = drafters_[address];
      drafter.info = DrafterInfo();
      drafter.endpoint = std::make_unique<FakeDraftEndpoint>(
          &executor_,
          [](const std::vector<TokenId>& text, const DraftBudget& budget) {
            return ToyTarget().PerfectChain(text, budget.max_depth);
          });
    }
    verifier_pool_.pool().SetAddresses({"a", "b"});
    drafter_pool_.pool().SetAddresses({"a", "b"});
  }

  // Calls `fault` before the call of this number to any replica.
  template <typename Replicas>
  void FaultAt(Replicas& replicas, int number,
               std::function<void(const std::string& address)> fault) {
    for (auto& [address, replica] : replicas) {
      replica.before_call = [this, number, fault, address = address] {
        if (++num_calls_ == number) fault(address);
      };
    }
  }

  Coordinator::Options Options() {
    Coordinator::Options options = {
        .verifier = &verifier_pool_,
        .verifier_info = [this] { return verifier_pool_.info(); }};
    options.drafters.push_back(
        {.name = "pool", .endpoint = &drafter_pool_, .info = [this] {
           return drafter_pool_.info();
         }});
    return options;
  }

  FakeExecutor executor_;  // of answers that come late: none do
  std::map<std::string, FakeVerifierLink::Replica> verifiers_;
  std::map<std::string, FakeDrafterLink::Replica> drafters_;
  int num_calls_ = 0;
  prometheus::Registry metrics_;
  PooledVerifier<FakeVerifierLink> verifier_pool_{
      {.name = "verifier",
       .new_link =
           [this](const std::string& address) {
             return std::make_unique<FakeVerifierLink>(&verifiers_[address]);
           },
       .model_of = [](const VerifierInfo& info) { return info.model; },
       .registry = &metrics_}};
  PooledDrafter<FakeDrafterLink> drafter_pool_{
      {.name = "pool",
       .new_link =
           [this](const std::string& address) {
             return std::make_unique<FakeDrafterLink>(&drafters_[address]);
           },
       .model_of = [](const DrafterInfo&) { return ModelIdentity(); },
       .registry = &metrics_}};
};

TEST_F(PooledEndpointsTest, ATextMovesWithItsVerifiersLoss) {
  FaultAt(verifiers_, 2, [this](const std::string& address) {
    verifiers_[address].status = {.state = PeerState::kConnecting};
  });
  ToyCluster cluster(0, Options());
  const GenerationRequest request = ToyCluster::Request(60);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_FALSE(verifiers_["a"].endpoint->requests().empty());
  EXPECT_FALSE(verifiers_["b"].endpoint->requests().empty());
}

TEST_F(PooledEndpointsTest, ATextMovesAtARoundsEndIfItsVerifierDrains) {
  FaultAt(verifiers_, 2, [this](const std::string& address) {
    verifiers_[address].status.draining = true;
  });
  ToyCluster cluster(0, Options());
  const GenerationRequest request = ToyCluster::Request(60);
  const Seen seen = cluster.Run(request);
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  for (auto& [address, verifier] : verifiers_) {
    EXPECT_EQ(verifier.endpoint->num_open(), 0) << "a drained one can end";
    EXPECT_FALSE(verifier.endpoint->requests().empty());
  }
}

// A verifier that refuses what is new, before anyone knows that it drains.
TEST_F(PooledEndpointsTest, AVerifierThatRefusesIsLeftAtOnce) {
  verifiers_["a"].endpoint->Behave({.error = absl::UnavailableError("no")});
  verifiers_["b"].endpoint->Behave({});
  ToyCluster cluster(0, Options());
  for (int i = 0; i < 8; ++i) {
    GenerationRequest request = ToyCluster::Request(20);
    request.prompt.push_back(i);
    Seen seen;
    cluster.Start(request, &seen);
    cluster.executor.RunUntilIdle();
    EXPECT_EQ(seen.tokens, cluster.PlainText(request)) << "without a pause";
  }
  EXPECT_FALSE(verifiers_["a"].endpoint->requests().empty());
}

TEST_F(PooledEndpointsTest, AllRefuseAndTheRequestEnds) {
  for (auto& [address, verifier] : verifiers_) {
    verifier.endpoint->Behave({.error = absl::UnavailableError("no")});
  }
  ToyCluster cluster(0, Options());
  const Seen seen = cluster.Run(ToyCluster::Request(20));
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
}

TEST_F(PooledEndpointsTest, OtherWeightsEndTheText) {
  FaultAt(verifiers_, 2, [this](const std::string& address) {
    verifiers_[address].status = {.state = PeerState::kConnecting};
    for (auto& [other, verifier] : verifiers_) {
      verifier.info->model.weights_fingerprint = 9;
    }
  });
  ToyCluster cluster(0, Options());
  const Seen seen = cluster.Run(ToyCluster::Request(60));
  EXPECT_TRUE(absl::IsUnavailable(seen.status)) << seen.status;
  EXPECT_FALSE(seen.tokens.empty());
}

TEST_F(PooledEndpointsTest, ALostReplicaOfADrafterCostsOneRound) {
  ToyCluster whole(0, Options());
  const GenerationRequest request = ToyCluster::Request(60);
  const int64_t steps = whole.Run(request).report.spec.num_spec_steps;
  num_calls_ = 0;
  FaultAt(drafters_, 3, [this](const std::string& address) {
    drafters_[address].status = {.state = PeerState::kConnecting};
  });
  ToyCluster cluster(0, Options());
  const Seen seen = cluster.Run(request);
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
  EXPECT_EQ(seen.report.spec.degraded_steps, 1);
  EXPECT_LE(seen.report.spec.num_spec_steps, steps + 1);
  EXPECT_TRUE(cluster.coordinator->Drafters()[0].up);
}

// Whatever comes and goes, the text is the same.
TEST_F(PooledEndpointsTest, AllReplicasOfADrafterFlap) {
  for (auto& [address, drafter] : drafters_) {
    drafter.before_call = [this] {
      for (auto& [name, replica] : drafters_) {
        const bool up = (++num_calls_ / 3) % 2 == 0;
        replica.status.state = up ? PeerState::kReady : PeerState::kConnecting;
      }
    };
  }
  ToyCluster cluster(0, Options());
  const GenerationRequest request = ToyCluster::Request(300);
  Seen seen;
  cluster.Start(request, &seen);
  cluster.executor.AdvanceBy(absl::Hours(1));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_EQ(seen.tokens, cluster.PlainText(request));
}

TEST_F(PooledEndpointsTest, APoolCanDoWhatAllItsReplicasCan) {
  verifiers_["a"].info->max_context = 500;
  verifiers_["b"].info->max_tree_nodes = 16;
  verifiers_["a"].info->ring.id = 7;
  EXPECT_EQ(verifier_pool_.info()->max_context, 500);
  EXPECT_EQ(verifier_pool_.info()->max_tree_nodes, 16);
  EXPECT_EQ(verifier_pool_.info()->ring.id, 0u);
  // A replica with other weights is not used.
  verifiers_["b"].info->model.weights_fingerprint = 5;
  EXPECT_EQ(verifier_pool_.info()->max_tree_nodes, 64);
}

}  // namespace
}  // namespace espalier::coordinator
