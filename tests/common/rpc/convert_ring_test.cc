#include <string>

#include "common/rpc/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/rpc/fake_engines.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

FeatureRingInfo TestRing() {
  return {.id = 5,
          .device_id = 6,
          .data_bytes = 1024,
          .handle = std::string("by\0this", 7)};
}

TEST(ConvertRing, WhatAVerificationStoresGoesThroughUnchanged) {
  VerifyRequest request = {.update = {.sequence = {1, 2}, .new_tokens = {3}},
                           .tree = TokenTree::RootOnly(3),
                           .rule = "walk",
                           .features = {.store = {{1, 2}, {7}}}};
  auto message = ToProto(request, absl::Seconds(1));
  EXPECT_EQ(FromProto(message)->features, request.features);
  message.mutable_features()->mutable_store()->clear_contracts();
  for (int64_t i = 0; i <= kMaxStoreContracts; ++i) {
    message.mutable_features()->mutable_store()->add_contracts();
  }
  EXPECT_THAT(FromProto(message).status().message(),
              HasSubstr("features.store.contracts"));

  const VerifyResult result = {
      .tokens = {1},
      .timings = {},
      .stored = {.ring_id = 9, .contracts = {{{0, 3, 256}, {3, 1, 512}}, {}}}};
  auto answer = ToProto(result);
  EXPECT_EQ(FromProto(answer)->stored, result.stored);
  answer.mutable_stored()
      ->mutable_contracts(0)
      ->mutable_segments(1)
      ->set_first_position(4);
  EXPECT_THAT(FromProto(answer).status().message(),
              HasSubstr("stored.contracts.segments"));

  VerifierInfo info = TestVerifierInfo();
  info.ring = TestRing();
  auto hello = ToProto(info);
  EXPECT_EQ(FromProto(hello)->ring, info.ring);
  hello.mutable_ring()->set_handle(std::string(257, 'x'));
  EXPECT_THAT(FromProto(hello).status().message(), HasSubstr("ring.handle"));
}

TEST(ConvertRing, StoredFeaturesGoThroughUnchanged) {
  const ProposeRequest propose = {
      .update = {.sequence = {1, 2}, .new_tokens = {3}},
      .stored = {.ring = TestRing(), .segments = {{2, 3, 256}, {5, 1, 512}}}};
  const auto asked = ToProto(propose, absl::Seconds(1));
  EXPECT_EQ(FromProto(asked)->stored, propose.stored);
  const auto refused = [&](auto change) {
    auto changed = asked;
    change(*changed.mutable_stored_features());
    return std::string(FromProto(changed).status().message());
  };
  EXPECT_THAT(refused([](v1::StoredFeatures& s) {
                s.mutable_segments(0)->set_first_position(uint64_t{1} << 40);
              }),
              HasSubstr("stored_features.segments.first_position"));
  EXPECT_THAT(refused([](v1::StoredFeatures& s) {
                s.mutable_segments(1)->set_offset(~uint64_t{0});
              }),
              HasSubstr("stored_features.segments.offset"));
  EXPECT_THAT(refused([](v1::StoredFeatures& s) {
                s.mutable_segments(1)->set_num_rows(0);
              }),
              HasSubstr("stored_features.segments"));
  EXPECT_THAT(refused([](v1::StoredFeatures& s) {
                for (int64_t i = 0; i < kMaxRingSegments; ++i) s.add_segments();
              }),
              HasSubstr("stored_features.segments: entries"));
  EXPECT_THAT(refused([](v1::StoredFeatures& s) {
                s.mutable_ring()->set_data_bytes(~uint64_t{0});
              }),
              HasSubstr("ring.data_bytes"));

  const Proposal answer = {.tree = TokenTree::RootOnly(3),
                           .lacks_features = true,
                           .ring_unreadable = true};
  EXPECT_TRUE(FromProto(ToProto(answer))->lacks_features);
  EXPECT_TRUE(FromProto(ToProto(answer))->ring_unreadable);
  EXPECT_EQ(FromProto(ToProto(DrafterInfo{.device_id = 5}))->device_id, 5u);
}

}  // namespace
}  // namespace espalier
