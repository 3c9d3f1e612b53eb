#include "coordinator/api/unread_streams.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UnreadStreamsTest : public testing::Test {
 protected:
  void Add(int stream, size_t bytes) {
    streams_.Add(&names_[stream], bytes,
                 [this, stream] { cancelled_.push_back(stream); });
  }
  void Remove(int stream) { streams_.Remove(&names_[stream]); }

  const char names_[8] = {};
  std::vector<int> cancelled_;
  UnreadStreams streams_{{.max_streams = 3, .max_bytes = 100}};
};

TEST_F(UnreadStreamsTest, TheOldestGivesWayToTheFourth) {
  for (int i = 0; i < 3; ++i) Add(i, 1);
  EXPECT_THAT(cancelled_, IsEmpty());
  Add(3, 1);
  EXPECT_THAT(cancelled_, ElementsAre(0));
  Remove(0);  // it ends because of that
  Remove(2);
  Add(4, 1);
  EXPECT_THAT(cancelled_, ElementsAre(0));
}

TEST_F(UnreadStreamsTest, BytesAreBoundedToo) {
  Add(0, 60);
  Add(1, 30);
  Add(2, 60);
  EXPECT_THAT(cancelled_, ElementsAre(0));
  Add(3, 101);  // alone too much
  EXPECT_THAT(cancelled_, ElementsAre(0, 1, 2, 3));
  Add(4, 100);
  EXPECT_THAT(cancelled_, ElementsAre(0, 1, 2, 3));
}

TEST_F(UnreadStreamsTest, WhatWasReadTakesNoPlace) {
  for (int i = 0; i < 8; ++i) {
    Add(i, 90);
    Remove(i);
  }
  EXPECT_THAT(cancelled_, IsEmpty());
}

}  // namespace
}  // namespace espalier::coordinator
