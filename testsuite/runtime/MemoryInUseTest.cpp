#include "runtime/MemoryInUse.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace pdc::runtime {

/// What reading the counts may take itself, more so with a sanitizer, and what the system's own
/// counters may be off by.
static constexpr int64_t slack = 4 << 20;
static constexpr int64_t size = 64 << 20;

namespace {
/// Memory of `size` bytes: of a file in the folder for temporary ones, or of no file.
class Mapping {
public:
  Mapping(int protection, bool ofFile) {
    std::string name = testing::TempDir() + "memory-in-use-XXXXXX";
    const int file = ofFile ? mkstemp(name.data()) : -1;
    if (ofFile) {
      unlink(name.c_str());
      EXPECT_EQ(ftruncate(file, size), 0);
    }
    const int kind = ofFile ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
    bytes = static_cast<char *>(mmap(nullptr, size, protection, kind, file, 0));
    EXPECT_NE(bytes, MAP_FAILED);
    if (ofFile)
      close(file);
  }
  ~Mapping() { munmap(bytes, size); }
  Mapping(const Mapping &) = delete;

  void read() const {
    for (int64_t at = 0; at < size; at += 4096)
      (void)*const_cast<const volatile char *>(bytes + at);
  }
  void write() const { std::memset(bytes, 1, size); }
  void forbidWriting() const { EXPECT_EQ(mprotect(bytes, size, PROT_READ), 0); }

private:
  char *bytes = nullptr;
};
} // namespace

TEST(MemoryInUse, WrittenMemoryIsOwnAndRemembered) {
  const MemoryInUse before = memoryInUse();
  {
    const Mapping memory(PROT_READ | PROT_WRITE, false);
    memory.write();
    EXPECT_NEAR(memoryInUse().own - before.own, size, slack);
  }
  const MemoryInUse after = memoryInUse();
  EXPECT_NEAR(after.own, before.own, slack);
  EXPECT_GE(after.highestOwn - before.own, size - slack);
  EXPECT_GE(after.highest, after.highestOwn);
}

TEST(MemoryInUse, FilesThatAreOnlyReadAreNot) {
  const MemoryInUse before = memoryInUse();
  const Mapping file(PROT_READ, true);
  file.read();
  const MemoryInUse after = memoryInUse();
  EXPECT_NEAR(after.own, before.own, slack);
  EXPECT_GE(after.highest - before.own, size - slack);
}

TEST(MemoryInUse, WrittenCopiesOfFilesAre) {
  const MemoryInUse before = memoryInUse();
  const Mapping file(PROT_READ | PROT_WRITE, true);
  file.write();
  EXPECT_NEAR(memoryInUse().own - before.own, size, slack);
}

/// Such as a debugger's breakpoint, or code that was relocated.
TEST(MemoryInUse, WrittenPagesOfFilesThatAreOnlyReadAre) {
  const MemoryInUse before = memoryInUse();
  const Mapping file(PROT_READ | PROT_WRITE, true);
  file.write();
  file.forbidWriting();
  EXPECT_NEAR(memoryInUse().own - before.own, size, slack);
}

} // namespace pdc::runtime
