#include "common/base/available_memory.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace espalier {
namespace {

class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest() {
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo",
          "MemTotal: 9000 kB\nMemAvailable:    5000 kB\nBuffers: 1 kB\n");
  }
  ~AvailableMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(
        std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_ =
      ::testing::TempDir() + "available_memory_test." +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(AvailableMemoryTest, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(AvailableMemory(root_), 5000 * 1024);
}

TEST_F(AvailableMemoryTest, IsWhatAGroupOfVersion2Leaves) {
  Write("/proc/self/cgroup", "0::/user/service\n");
  Write("/sys/fs/cgroup/user/service/memory.max", "max\n");
  EXPECT_EQ(AvailableMemory(root_), 5000 * 1024);
  Write("/sys/fs/cgroup/user/memory.max", "3000000\n");
  Write("/sys/fs/cgroup/user/memory.current", "1000000\n");
  EXPECT_EQ(AvailableMemory(root_), 2000000);
  Write("/sys/fs/cgroup/user/memory.stat",
        "anon 4\ninactive_file 300000\nactive_file 7\n");
  EXPECT_EQ(AvailableMemory(root_), 2300000);
}

TEST_F(AvailableMemoryTest, IsWhatAGroupOfVersion1Leaves) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:rdma,memory:/box\n0::/\n");
  Write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4000000");
  Write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "3500000");
  EXPECT_EQ(AvailableMemory(root_), 500000);
}

// A container has its own group mounted as the root, but the path of the group
// is the host's.
TEST_F(AvailableMemoryTest, IsWhatAContainersOwnGroupLeaves) {
  Write("/proc/self/cgroup", "0::/docker/1234\n");
  Write("/sys/fs/cgroup/memory.max", "2000000");
  Write("/sys/fs/cgroup/memory.current", "2500000");
  EXPECT_EQ(AvailableMemory(root_), 0);
}

TEST_F(AvailableMemoryTest, NoLimitOfAGroupIsNone) {
  Write("/proc/self/cgroup", "4:memory:/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000");
  EXPECT_EQ(AvailableMemory(root_), 5000 * 1024);
}

TEST(AvailableMemory, OfThisMachineIsSome) { EXPECT_GT(AvailableMemory(), 0); }

}  // namespace
}  // namespace espalier
