#include "coordinator/pool/peer_addresses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(PeerAddressesTest, OneOrAListOrAName) {
  EXPECT_THAT(PeerAddresses::Parse("unix:/tmp/a.sock")->fixed(),
              ElementsAre("unix:/tmp/a.sock"));
  EXPECT_THAT(PeerAddresses::Parse("a:1,b:2")->fixed(),
              ElementsAre("a:1", "b:2"));
  EXPECT_FALSE(PeerAddresses::Parse("a:1")->is_name());
  EXPECT_TRUE(PeerAddresses::Parse("dns:verifiers:50051")->is_name());
}

TEST(PeerAddressesTest, MistakesAreRefused) {
  for (const char* text :
       {"a:1,", ",a:1", "", "a:1,a:1", "dns:", "dns:name", "dns:name:0",
        "dns:name:65536", "dns::1", "dns:name:x", "dns:a:1:2"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PeerAddresses::Parse(text).status()))
        << text;
  }
}

TEST(PeerAddressesTest, ANameHasTheAddressesOfTheResolver) {
  const auto found = PeerAddresses::Parse("dns:localhost:50051")->Resolve();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, Contains("127.0.0.1:50051"));
  const auto unknown = PeerAddresses::Parse("dns:no.invalid:1")->Resolve();
  EXPECT_TRUE(absl::IsUnavailable(unknown.status()));
}

}  // namespace
}  // namespace espalier::coordinator
