#include "common/rpc/read_message.h"

#include <string>
#include <vector>

#include "common/speculation/feature_ring.h"
#include "common/speculation/request_errors.h"
#include "espalier/v1/admin.pb.h"
#include "espalier/v1/drafter.pb.h"
#include "espalier/v1/inference.pb.h"
#include "espalier/v1/verifier.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;

std::string Varint(size_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) {
    bytes.push_back(static_cast<char>((value & 127) | 128));
  }
  return bytes + static_cast<char>(value);
}

// Returns the bytes of a length-delimited field.
std::string Field(size_t number, const std::string& content) {
  return Varint(number << 3 | 2) + Varint(content.size()) + content;
}

absl::Status Check(const std::string& bytes) {
  return CheckMessageBytes(*v1::GenerateRequest::descriptor(), bytes);
}

void ExpectRefused(const std::string& bytes, const std::string& field,
                   const std::string& what) {
  const absl::Status status = Check(bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldOf(status), field);
  EXPECT_THAT(status.message(), HasSubstr(what));
}

TEST(ReadMessageTest, GoodMessagesAreRead) {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_content("größer");
  request.set_max_tokens(7);
  request.add_stop_token_ids(3);
  request.mutable_speculation()->add_drafters("a");
  const auto read = ReadAs<v1::GenerateRequest>(WriteMessage(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), request.SerializeAsString());
}

TEST(ReadMessageTest, InvalidUtf8IsNamedWithItsPlace) {
  ExpectRefused(Field(3, "abc\xff"), "prompt", "no valid UTF-8 at byte 3");
  ExpectRefused(Field(1, "\xff"), "request_id", "byte 0");
  const std::string good = Field(1, Field(2, "good"));
  const std::string bad = Field(1, Field(2, "ab\xc3("));
  ExpectRefused(Field(5, good + bad), "chat.messages[1].content", "byte 2");
  ExpectRefused(Field(13, Field(4, "\x80")), "speculation.drafters", "byte 0");
}

TEST(ReadMessageTest, TwoMembersOfAOneofAreRefused) {
  ExpectRefused(Field(3, "hello") + Field(5, Field(1, Field(2, "hello"))),
                "chat", "is there beside prompt");
  ExpectRefused(Field(4, Field(1, "\x01")) + Field(3, "x"), "prompt",
                "is there beside token_ids");
  // In protobuf, every optional field has its own synthetic oneof.
  v1::GenerateRequest request;
  request.set_request_id("a");
  request.set_model("b");
  request.set_prompt("c");
  EXPECT_TRUE(Check(request.SerializeAsString()).ok());
}

TEST(ReadMessageTest, WhatIsNoMessageIsRefused) {
  ExpectRefused("\xff\xff\xff", "request", "malformed");
  ExpectRefused(Field(3, "abc").substr(0, 3), "request", "malformed");
  ExpectRefused(Field(5, "\xff"), "chat", "malformed");
  // Groups of an unknown field that never end.
  ExpectRefused(std::string(1'000'000, '\x7b'), "request", "malformed");
}

// Empty fields occupy some dozens of bytes each when they are parsed.
TEST(ReadMessageTest, MoreFieldsThanAnybodyNeedsAreRefused) {
  const auto repeated = [](const std::string& bytes, int64_t count) {
    std::string all;
    for (int64_t i = 0; i < count; ++i) all += bytes;
    return all;
  };
  const std::string message = Field(1, "");  // of Chat
  EXPECT_TRUE(Check(Field(5, repeated(message, kClientLimits.repeated))).ok());
  ExpectRefused(Field(5, repeated(message, kClientLimits.repeated + 1)),
                "chat.messages", "more than 4096 entries");
  // Spread over occurrences of the field that has them.
  ExpectRefused(repeated(Field(5, message), kClientLimits.repeated + 1),
                "chat.messages", "more than 4096 entries");
  ExpectRefused(repeated(Field(23, ""), kClientLimits.repeated + 1),
                "bad_words", "more than 4096 entries");
  ExpectRefused(repeated(Field(22, ""), kClientLimits.repeated + 1),
                "logit_bias", "more than 4096 entries");
  ExpectRefused(repeated(Field(1000, ""), kClientLimits.unknown + 1), "request",
                "more than 1024 unknown fields");
  ExpectRefused(repeated("\x58\x01", kClientLimits.fields + 1), "request",
                "more than 131072 fields");
}

// Returns the bytes of a message in which an element of `path` holds the next.
std::string Nested(const std::vector<const FieldDescriptor*>& path,
                   std::string content) {
  for (auto field = path.rbegin(); field != path.rend(); ++field) {
    content = Field((*field)->number(), content);
  }
  return content;
}

// Expects that too many empty ones of every repeated field of the type, and of
// the messages in it, are refused.
void ExpectAllCounted(const Descriptor& root, const MessageLimits& limits,
                      const Descriptor& type,
                      std::vector<const FieldDescriptor*> path, int& counted) {
  if (path.size() > 6) return;  // messages that hold themselves
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() && !field.is_packable()) {
      std::string all;
      for (int64_t k = 0; k <= limits.repeated; ++k) {
        all += Field(field.number(), "");
      }
      const absl::Status status =
          CheckMessageBytes(root, Nested(path, all), limits);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << field.full_name();
      EXPECT_THAT(status.message(), HasSubstr("entries")) << field.full_name();
      ++counted;
    }
    if (field.message_type() == nullptr) continue;
    auto deeper = path;
    deeper.push_back(&field);
    ExpectAllCounted(root, limits, *field.message_type(), deeper, counted);
  }
}

// Each message that another program sends to one of ours.
TEST(ReadMessageTest, RepeatedFieldsOfEveryMessageAreCounted) {
  const auto count = [](const Descriptor* type, const MessageLimits& limits) {
    int counted = 0;
    ExpectAllCounted(*type, limits, *type, {}, counted);
    std::string unknown;
    for (int64_t k = 0; k <= limits.unknown; ++k) unknown += Field(2047, "");
    EXPECT_TRUE(
        absl::IsInvalidArgument(CheckMessageBytes(*type, unknown, limits)))
        << type->full_name();
    return counted;
  };
  EXPECT_GT(count(v1::GenerateRequest::descriptor(), kClientLimits), 4);
  for (const Descriptor* type :
       {v1::AbortRequest::descriptor(), v1::GetModelInfoRequest::descriptor(),
        v1::GetServerInfoRequest::descriptor(),
        v1::GetLoadRequest::descriptor(), v1::ListDraftersRequest::descriptor(),
        v1::SetDrafterRequest::descriptor()}) {
    EXPECT_EQ(count(type, kClientLimits), 0) << type->full_name();
  }
  EXPECT_GT(count(v1::VerifyRequest::descriptor(), kPeerLimits), 1);
  EXPECT_GT(count(v1::VerifyResponse::descriptor(), kPeerLimits), 3);
  EXPECT_GT(count(v1::DraftRequest::descriptor(), kPeerLimits), 1);
  EXPECT_EQ(count(v1::DraftResponse::descriptor(), kPeerLimits), 0);
}

// The most segments of a ring that a request may name.
TEST(ReadMessageTest, PeersMaySendAsManySegmentsAsARingHas) {
  v1::DraftRequest request;
  v1::StoredFeatures& stored =
      *request.mutable_propose()->mutable_stored_features();
  for (int64_t i = 0; i < kMaxRingSegments; ++i) {
    v1::FeatureSegment& segment = *stored.add_segments();
    segment.set_first_position(i);
    segment.set_num_rows(1);
  }
  EXPECT_TRUE(
      ReadAs<v1::DraftRequest>(WriteMessage(request), kPeerLimits).ok());
}

TEST(ReadMessageTest, PackedNumbersAreOneField) {
  v1::GenerateRequest request;
  for (int i = 0; i < 1'000'000; ++i) {
    request.mutable_token_ids()->add_ids(1);
  }
  EXPECT_TRUE(Check(request.SerializeAsString()).ok());
}

TEST(ReadMessageTest, UnknownFieldsAreSkipped) {
  EXPECT_TRUE(Check(Field(15, "\xff\xfe") + Field(3, "x")).ok());
}

}  // namespace
}  // namespace espalier
