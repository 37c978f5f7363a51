#include "runtime/kernels/LibraryCode.h"
#include "testsuite/kernels/LibraryMemory.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>

namespace pdc {

TEST(LibraryCode, IsGivenBackByAProgramAtFixedAddresses) {
  readLibraryCode();
  const int64_t before = residentLibraryCode();
  EXPECT_GT(before, 4096);
  runtime::releaseLibraryCode();
  EXPECT_LT(residentLibraryCode(), before / 10);
}

/// What a debugger or a loader wrote there is in no file: it stays, and what lies around it goes.
TEST(LibraryCode, WrittenPagesStay) {
  const std::vector<LibraryMapping> all = libraryMappings();
  auto code = std::ranges::find(all, "r-xp", &LibraryMapping::permissions);
  ASSERT_NE(code, all.end());
  readLibraryCode();
  auto *page =
      reinterpret_cast<unsigned char *>(code->begin + (code->end - code->begin) / 8192 * 4096);
  const unsigned char original = page[7], written = static_cast<unsigned char>(~original);
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  page[7] = written;
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
  runtime::releaseLibraryCode();
  EXPECT_EQ(page[7], written);
  EXPECT_LT(residentLibraryCode(), 1024);
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  page[7] = original;
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
}

} // namespace pdc
