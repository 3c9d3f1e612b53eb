#include "common/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Returns the number after `key` in a file of "key number" lines; 0: no such
// key.
int64_t NumberOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t number = 0;
    if (word == key && file >> number) return number;
  }
  return 0;
}

// The files of one version of control groups.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* droppable;  // the key in memory.stat
};
constexpr GroupFiles kVersion1 = {
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
    "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max",
                                  "memory.current", "inactive_file"};

// Returns the bytes that the limit of one group leaves.
int64_t LeftIn(const std::string& folder, const GroupFiles& files) {
  int64_t limit = 0, usage = 0;
  // "max" is no number.
  if (!(std::ifstream(absl::StrCat(folder, "/", files.limit)) >> limit))
    return kNoLimit;
  std::ifstream(absl::StrCat(folder, "/", files.usage)) >> usage;
  const int64_t droppable = NumberOf(folder + "/memory.stat", files.droppable);
  return std::max<int64_t>(limit - usage + std::min(droppable, usage), 0);
}

// Returns the least of LeftIn for the group and all groups above it. A
// container may see its own group as the root.
int64_t LeftInGroups(const std::string& root, std::string group,
                     const GroupFiles& files) {
  int64_t left = LeftIn(root + files.mount, files);
  while (group.size() > 1) {
    left = std::min(left, LeftIn(root + files.mount + group, files));
    group.resize(group.rfind('/'));
  }
  return left;
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  int64_t left = NumberOf(root + "/proc/meminfo", "MemAvailable:") * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  // ID:CONTROLLERS:PATH, without controllers in version 2.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers =
        absl::StrCat(",", line.substr(first + 1, second - first - 1), ",");
    const std::string group = line.substr(second + 1);
    if (!group.starts_with('/')) continue;
    if (controllers == ",,") {
      left = std::min(left, LeftInGroups(root, group, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, LeftInGroups(root, group, kVersion1));
    }
  }
  return left;
}

}  // namespace espalier
