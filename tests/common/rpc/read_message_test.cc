#include "common/rpc/read_message.h"

#include <string>

#include "common/spec/request_errors.h"
#include "espalier/v1/inference.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

// The bytes of a length-delimited field; tag and size have one byte each.
std::string Field(int number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(content.size())) + content;
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

TEST(ReadMessageTest, UnknownFieldsAreSkipped) {
  EXPECT_TRUE(Check(Field(15, "\xff\xfe") + Field(3, "x")).ok());
}

}  // namespace
}  // namespace espalier
