// What a reader gets of a ring is what the verifier put in, or it is told.
#include "common/model/cuda/ring_reader.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/model/cuda/feature_ring.h"
#include "gtest/gtest.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

constexpr int kHidden = 64;
constexpr int64_t kRowBytes = kHidden * 2;  // of one tap
const std::vector<int32_t> kPoints = {1, 4, 7};

// Returns a number from which a test sees whose state it is.
uint16_t NumberAt(int64_t position, int32_t tap, int column) {
  return static_cast<uint16_t>(position * 1009 + tap * 131 + column);
}

std::vector<uint16_t> RowsAt(int64_t begin, int64_t end,
                             const std::vector<int32_t>& taps) {
  std::vector<uint16_t> rows;
  for (int64_t i = begin; i < end; ++i) {
    for (int32_t tap : taps) {
      for (int c = 0; c < kHidden; ++c) rows.push_back(NumberAt(i, tap, c));
    }
  }
  return rows;
}

using Segments = std::vector<RingSegment>;

class Writer {
 public:
  explicit Writer(int64_t data_bytes) {
    device = std::make_shared<testing::WatchedDevice>();
    auto made = FeatureRing::Make(device, data_bytes);
    EXPECT_TRUE(made.ok()) << made.status();
    ring = *std::move(made);
  }

  // Puts rows as if a pass had computed `count` positions, among rows that
  // nobody keeps.
  absl::StatusOr<Segments> TryPut(const std::vector<int32_t>& taps,
                                  int64_t position, int64_t count) {
    const int rows = static_cast<int>(2 * count + 1);
    std::vector<int32_t> kept;
    std::vector<uint16_t>& states =
        states_.emplace_back(kPoints.size() * rows * kHidden, uint16_t{0xffff});
    for (int64_t i = 0; i < count; ++i) {
      kept.push_back(static_cast<int32_t>(2 * i + 1));
      for (size_t p = 0; p < kPoints.size(); ++p) {
        for (int c = 0; c < kHidden; ++c) {
          states[(p * rows + kept.back()) * kHidden + c] =
              NumberAt(position + i, kPoints[p], c);
        }
      }
    }
    return ring->Put(taps,
                     {.states = states.data(),
                      .points = kPoints,
                      .rows = rows,
                      .hidden = kHidden},
                     kept, position);
  }
  Segments Put(const std::vector<int32_t>& taps, int64_t position,
               int64_t count) {
    const auto segments = TryPut(taps, position, count);
    EXPECT_TRUE(segments.ok()) << segments.status();
    return segments.ok() ? *segments : Segments();
  }

 private:
  // A lost device has work left, which ends with the ring.
  std::deque<std::vector<uint16_t>> states_;

 public:
  std::shared_ptr<testing::WatchedDevice> device;
  std::shared_ptr<FeatureRing> ring;
};

// A reader with a device of its own, as another process has one.
struct Reader {
  // Returns the position from which on the rows are those of the taps; -1: an
  // error, or others.
  int64_t Read(const Segments& segments, const std::vector<int32_t>& taps) {
    const int64_t begin = segments.front().first_position;
    const int64_t end = segments.back().end_position();
    const int64_t width = std::ssize(taps) * kHidden;
    auto to =
        cuda::DeviceArray<cuda::bf16_t>::Make(device, (end - begin) * width);
    EXPECT_TRUE(to.ok());
    const auto first = reader.Read(segments, 2 * width, to->data());
    EXPECT_TRUE(first.ok()) << first.status();
    if (!first.ok()) return -1;
    std::vector<uint16_t> rows((end - *first) * width);
    to->Read((*first - begin) * width, absl::MakeSpan(rows));
    EXPECT_TRUE(device.Wait(device.Record()).ok());
    return rows == RowsAt(*first, end, taps) ? *first : -1;
  }

  testing::WatchedDevice device;
  RingReader reader{device};
};

class FeatureRingTest : public ::testing::TestWithParam<bool> {
 protected:
  // Opens the ring of this process, or by its handle.
  void Open(Reader& reader, const Writer& writer) {
    if (GetParam()) reader.reader.UseOwn(writer.ring);
    const absl::Status opened = reader.reader.Open(writer.ring->info());
    EXPECT_TRUE(opened.ok()) << opened;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, FeatureRingTest, ::testing::Bool(),
                         [](const auto& way) {
                           return way.param ? "InProcess" : "ByHandle";
                         });

TEST_P(FeatureRingTest, HoldsEachContractsColumns) {
  Writer writer(1 << 20);
  Reader reader;
  Open(reader, writer);
  Segments both = writer.Put({1, 7}, 0, 70), one = writer.Put({4}, 3, 70);
  const Segments more = writer.Put({1, 7}, 70, 3);
  both.insert(both.end(), more.begin(), more.end());
  EXPECT_EQ(reader.Read(both, {1, 7}), 0);
  EXPECT_EQ(reader.Read(one, {4}), 3);
  EXPECT_EQ(reader.Read(SegmentsFrom(71, 2 * kRowBytes, both), {1, 7}), 71);
}

// The host has such rows of a prompt whose K/V was cached.
TEST_P(FeatureRingTest, TakesRowsOfTheHost) {
  Writer writer(1 << 20);
  Reader reader;
  Open(reader, writer);
  const auto segments = writer.ring->PutRows(RowsAt(2, 600, {4}), kHidden, 2);
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_GT(segments->size(), 1u);
  EXPECT_TRUE(AreConsecutive(*segments));
  EXPECT_EQ(reader.Read(*segments, {4}), 2);
}

TEST_P(FeatureRingTest, WhatIsOverwrittenIsTold) {
  Writer writer(10 * kRowBytes);
  Reader reader;
  Open(reader, writer);
  const Segments first = writer.Put({4}, 0, 4), second = writer.Put({4}, 4, 4);
  EXPECT_EQ(reader.Read({first[0], second[0]}, {4}), 0);
  const Segments third = writer.Put({4}, 8, 3);  // from the beginning
  EXPECT_EQ(third[0].offset, uint64_t{10 * kRowBytes});
  EXPECT_EQ(reader.Read({first[0], second[0], third[0]}, {4}), 4);
  EXPECT_EQ(reader.Read(first, {4}), 4) << "none of them";
}

// The verifier writes between the copy of the rows and the look at the cursor.
TEST_P(FeatureRingTest, WhatIsOverwrittenDuringTheCopyIsTold) {
  Writer writer(10 * kRowBytes);
  Reader reader;
  Open(reader, writer);
  const Segments old = writer.Put({4}, 0, 4), last = writer.Put({4}, 4, 4);
  reader.device.after_copy = [&](int64_t bytes) {
    if (bytes == 4 * kRowBytes) writer.Put({1}, 90, 3);
  };
  EXPECT_EQ(reader.Read({old[0]}, {4}), 4);
  reader.device.after_copy = nullptr;
  EXPECT_EQ(reader.Read({last[0]}, {4}), 4) << "these were not";
}

TEST_P(FeatureRingTest, RandomReadsAreRightOrTold) {
  Writer writer(50 * kRowBytes);
  Reader reader;
  Open(reader, writer);
  std::mt19937_64 random(1);
  Segments segments;
  int64_t end = 0, intact = 0;
  for (int i = 0; i < 300; ++i) {
    const auto count = static_cast<int64_t>(1 + random() % 9);
    const auto gap = static_cast<int64_t>(random() % 8 == 0);
    for (const RingSegment& added : writer.Put({1, 4}, end + gap, count)) {
      AppendSegment(added, segments);
    }
    end += gap + count;
    const int64_t first = reader.Read(segments, {1, 4});
    ASSERT_GE(first, segments[0].first_position) << i;
    ASSERT_LT(first, end) << "the last one is always there";
    intact += end - first;
  }
  EXPECT_GT(intact, 300 * 15) << "most of the 25 rows that fit";
}

TEST_P(FeatureRingTest, NoDescriptionOfSegmentsReadsElsewhere) {
  Writer writer(20 * kRowBytes);
  Reader reader;
  Open(reader, writer);
  writer.Put({4}, 0, 15);
  std::mt19937_64 random(7);
  auto to = cuda::DeviceArray<cuda::bf16_t>::Make(reader.device, 40 * kHidden);
  ASSERT_TRUE(to.ok());
  for (int i = 0; i < 500; ++i) {
    Segments segments;
    for (int64_t end = 0; end < 30;) {
      const auto rows = static_cast<int64_t>(1 + random() % 10);
      segments.push_back({end, rows, random() >> (random() % 64)});
      end += rows;
    }
    const auto first = reader.reader.Read(segments, kRowBytes, to->data());
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_GE(*first, 0);
    ASSERT_LE(*first, segments.back().end_position());
  }
}

TEST(FeatureRingsTest, RowsThatDoNotFitAreInNoSegment) {
  Writer writer(2 * kRowBytes);
  EXPECT_TRUE(writer.Put({4}, 0, 3).empty());
  EXPECT_TRUE(writer.Put({4}, 0, 0).empty());
  EXPECT_EQ(writer.Put({4}, 0, 2).size(), 1u);
  EXPECT_FALSE(FeatureRing::Make(writer.device, 255).ok());
}

TEST(FeatureRingsTest, ALostDeviceIsAnError) {
  Writer writer(1 << 16);
  writer.device->is_lost = true;
  EXPECT_EQ(writer.TryPut({4}, 0, 3).status().code(),
            absl::StatusCode::kUnavailable);
  writer.device->is_lost = false;
}

TEST(FeatureRingsTest, AnotherDescriptionIsRefused) {
  Writer writer(1 << 16), other(1 << 16);
  const FeatureRingInfo& right = writer.ring->info();
  std::vector<FeatureRingInfo> wrong(7, right);
  wrong[0].id = 0;
  wrong[1].id += 1;
  wrong[2].data_bytes += 256;
  wrong[3].data_bytes -= 256;
  wrong[4].handle = other.ring->info().handle;
  wrong[5].handle = "";
  wrong[6].data_bytes = kMaxRingBytes + 1;
  for (const std::string& handle :
       {std::string("1/2/3"), std::string("../etc/passwd"),
        std::string("4294967296/1"), std::string("-1/0"), std::string("1/0"),
        std::to_string(getpid()) + "/0", std::string(256, '\xff')}) {
    wrong.push_back(right);
    wrong.back().handle = handle;
  }
  Reader reader;
  for (const FeatureRingInfo& info : wrong) {
    EXPECT_EQ(reader.reader.Open(info).code(),
              absl::StatusCode::kFailedPrecondition)
        << info.handle;
  }
  EXPECT_TRUE(reader.reader.Open(right).ok());
  EXPECT_TRUE(reader.reader.Open(other.ring->info()).ok());
  EXPECT_EQ(reader.Read(other.Put({4}, 0, 3), {4}), 0);
}

// Runs `body` in a child process; true: it returned true.
template <typename Body>
pid_t Fork(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() && !::testing::Test::HasFailure() ? 0 : 1);
  return child;
}

bool Succeeds(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

TEST(RingOfAnotherProcessTest, IsReadByItsHandle) {
  Writer writer(10 * kRowBytes);
  const Segments old = writer.Put({4}, 0, 4), last = writer.Put({4}, 4, 4);
  EXPECT_TRUE(Succeeds(Fork([&] {
    Reader reader;
    return reader.reader.Open(writer.ring->info()).ok() &&
           reader.Read({old[0], last[0]}, {4}) == 0;
  })));
}

// It reads while the verifier writes, until all that it reads is overwritten.
TEST(RingOfAnotherProcessTest, IsNeverReadWrong) {
  Writer writer(64 * kRowBytes);
  Segments segments;
  for (int64_t i = 0; i < 32; ++i) {
    segments.push_back(writer.Put({4}, 2 * i, 2)[0]);
  }
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = Fork([&] {
    Reader reader;
    if (!reader.reader.Open(writer.ring->info()).ok()) return false;
    int64_t first = reader.Read(segments, {4});
    if (first != 0 || write(ready[1], "x", 1) != 1) return false;
    while (first < 64) {
      const int64_t next = reader.Read(segments, {4});
      if (next < first) return false;
      first = next;
    }
    return true;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  for (int64_t i = 32; i < 64; ++i) writer.Put({1}, 2 * i, 2);
  EXPECT_TRUE(Succeeds(child));
  close(ready[0]);
  close(ready[1]);
}

// Whatever becomes of the verifier, its reader does not wait and does not
// crash.
TEST(RingOfAnotherProcessTest, OutlivesItsProcessWhereItIsOpen) {
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  struct Told {
    uint64_t id;
    int64_t data_bytes;
    char handle[64];
    RingSegment segment;
  };
  const pid_t verifier = Fork([&] {
    Writer writer(10 * kRowBytes);
    const FeatureRingInfo& info = writer.ring->info();
    Told told = {info.id, info.data_bytes, {}, writer.Put({4}, 0, 4)[0]};
    std::strncpy(told.handle, info.handle.c_str(), sizeof(told.handle) - 1);
    if (write(answer[1], &told, sizeof(told)) != sizeof(told)) return false;
    while (true) pause();
  });
  Told told = {};
  ASSERT_EQ(read(answer[0], &told, sizeof(told)), ssize_t{sizeof(told)});
  const FeatureRingInfo info = {
      .id = told.id, .data_bytes = told.data_bytes, .handle = told.handle};
  Reader reader;
  ASSERT_TRUE(reader.reader.Open(info).ok());
  kill(verifier, SIGKILL);
  int status = 0;
  waitpid(verifier, &status, 0);
  EXPECT_EQ(reader.Read({told.segment}, {4}), 0);
  Reader late;
  EXPECT_EQ(late.reader.Open(info).code(),
            absl::StatusCode::kFailedPrecondition);
  close(answer[0]);
  close(answer[1]);
}

}  // namespace
}  // namespace espalier
