#include "tools/pdc-profile/FreeMemory.h"

#include <fstream>
#include <gtest/gtest.h>

namespace pdc {
namespace {

namespace fs = std::filesystem;

/// A machine with 1000 kB left, as its files say.
class FreeMemory : public testing::Test {
protected:
  FreeMemory() : root(fs::path(testing::TempDir()) / "free-memory") {
    fs::remove_all(root);
    write("proc/meminfo", "MemTotal: 9999 kB\nMemFree: 5 kB\nMemAvailable: 1000 kB\n");
  }
  ~FreeMemory() override { fs::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  fs::path root;
};

TEST_F(FreeMemory, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(availableBytes(root), 1000 * 1024);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(availableBytes(root), 1000 * 1024);
}

TEST_F(FreeMemory, IsWhatTheTightestGroupLeaves) {
  write("proc/self/cgroup", "1:cpu:/other\n0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/memory.max", "600000\n");
  write("sys/fs/cgroup/jobs/memory.current", "500000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 1\ninactive_file 200000\n");
  EXPECT_EQ(availableBytes(root), 300000);
  write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/mine/memory.current", "7\n");
  EXPECT_EQ(availableBytes(root), 300000);
  write("sys/fs/cgroup/jobs/mine/memory.max", "50007\n");
  EXPECT_EQ(availableBytes(root), 50000);
}

TEST_F(FreeMemory, ReadsTheFirstVersionOfGroups) {
  write("proc/self/cgroup", "4:memory:/box\n3:cpuset:/\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(availableBytes(root), 300000);
}

/// A group that is over its limit leaves nothing, which is not the same as not known.
TEST_F(FreeMemory, OfAFullGroupIsNearlyNone) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "10\n");
  write("sys/fs/cgroup/memory.current", "20\n");
  EXPECT_EQ(availableBytes(root), 1);
}

} // namespace
} // namespace pdc
