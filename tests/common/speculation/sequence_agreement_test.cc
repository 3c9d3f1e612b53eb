// How peers detect that their copies of a sequence differ.

#include <set>
#include <vector>

#include "absl/strings/cord.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/stale_base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

TEST(PrefixHash, ExtendsTokenByToken) {
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5};
  EXPECT_EQ(PrefixHash({}), kEmptyPrefixHash);
  uint64_t hash = kEmptyPrefixHash;
  for (size_t n = 0; n < tokens.size(); ++n) {
    EXPECT_EQ(PrefixHash(absl::MakeSpan(tokens).first(n)), hash);
    hash = ExtendPrefixHash(hash, tokens[n]);
  }
}

TEST(PrefixHash, TellsTextsApartByTokensOrderAndLength) {
  std::set<uint64_t> hashes;
  int64_t texts = 0;
  for (TokenId a = 0; a < 20; ++a) {
    hashes.insert(PrefixHash({a}));
    ++texts;
    for (TokenId b = 0; b < 20; ++b) {
      hashes.insert(PrefixHash({a, b}));
      hashes.insert(PrefixHash({a, b, 0}));
      texts += 2;
    }
  }
  hashes.insert(PrefixHash({}));
  EXPECT_EQ(static_cast<int64_t>(hashes.size()), texts + 1);
}

// Peers of different builds must have the same hash.
TEST(PrefixHash, IsPinned) {
  EXPECT_EQ(PrefixHash({1, 2, 3}), 0xc316ec6f03114cf1);
}

TEST(StaleBaseError, CarriesTheHeldLength) {
  const absl::Status status = StaleBaseError(12, 40);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("base_length 40"));
  EXPECT_EQ(HeldLength(status), 12);
  EXPECT_EQ(HeldLength(StaleBaseError(0, 1)), 0);
}

TEST(StaleBaseError, OtherStatusesHaveNoHeldLength) {
  EXPECT_EQ(HeldLength(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(HeldLength(absl::FailedPreconditionError("x")), std::nullopt);
}

TEST(StaleBaseError, AForgedPayloadIsNoHeldLength) {
  for (const char* payload : {"", "abc", "-3", "99999999999999999999"}) {
    absl::Status status = StaleBaseError(1, 2);
    status.ForEachPayload([&](auto url, const absl::Cord&) {
      absl::Status forged = absl::FailedPreconditionError("x");
      forged.SetPayload(url, absl::Cord(payload));
      EXPECT_EQ(HeldLength(forged), std::nullopt) << payload;
    });
  }
}

}  // namespace
}  // namespace espalier
