#include "runtime/kernels/LibraryCode.h"

#include <dnnl.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace pdc::runtime {

namespace {

/// Whole pages that the library never writes to.
struct LibraryPages {
  uintptr_t begin, end;
};

/// Those of the program or library that holds oneDNN, where `object` is that one. The address of a
/// function would not tell: in a program at fixed addresses that is an entry of its own table of
/// jumps. What the library points to is its own.
int collectLibraryPages(dl_phdr_info *object, size_t, void *found) {
  const auto inLibrary = reinterpret_cast<uintptr_t>(dnnl_version());
  const auto page = static_cast<uintptr_t>(getpagesize());
  bool isLibrary = false;
  std::vector<LibraryPages> all;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD)
      continue;
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    isLibrary |= inLibrary >= begin && inLibrary < end;
    // Its first and last page may hold parts of segments that are written to.
    const LibraryPages inside{(begin + page - 1) / page * page, end / page * page};
    if (!(segment.p_flags & PF_W) && inside.begin < inside.end)
      all.push_back(inside);
  }
  if (isLibrary)
    *static_cast<std::vector<LibraryPages> *>(found) = std::move(all);
  return isLibrary;
}

/// What the kernel keeps of each page of the process: /proc/self/pagemap.
class PageTable {
public:
  PageTable() : file(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~PageTable() {
    if (file >= 0)
      close(file);
  }
  PageTable(const PageTable &) = delete;

  /// Gives the pages back, but for those that no file can bring back: a debugger's breakpoints,
  /// relocated code, code that was moved to huge pages. Advice only: pages that stay are memory and
  /// no mistake, so all stay where the kernel does not tell.
  void release(LibraryPages pages) const {
    std::array<uint64_t, 512> entries;
    while (pages.begin < pages.end) {
      const size_t count = std::min(entries.size(), (pages.end - pages.begin) / page);
      const auto bytes = static_cast<ssize_t>(count * sizeof(uint64_t));
      const auto at = static_cast<off_t>(pages.begin / page * sizeof(uint64_t));
      if (pread(file, entries.data(), static_cast<size_t>(bytes), at) != bytes)
        return;
      for (size_t i = 0; i < count;) {
        const size_t first = i;
        while (i < count && !isOwn(entries[i]))
          ++i;
        if (i > first)
          madvise(reinterpret_cast<void *>(pages.begin + first * page), (i - first) * page,
                  MADV_DONTNEED);
        while (i < count && isOwn(entries[i]))
          ++i;
      }
      pages.begin += count * page;
    }
  }

private:
  /// In memory or swapped out, and none of a file's.
  static bool isOwn(uint64_t entry) {
    constexpr uint64_t present = uint64_t(1) << 63, swapped = uint64_t(1) << 62,
                       ofFile = uint64_t(1) << 61;
    return (entry & (present | swapped)) && !(entry & ofFile);
  }

  const int file;
  const uintptr_t page = static_cast<uintptr_t>(getpagesize());
};

} // namespace

void releaseLibraryCode() {
  static const std::vector<LibraryPages> segments = [] {
    std::vector<LibraryPages> found;
    dl_iterate_phdr(collectLibraryPages, &found);
    return found;
  }();
  const PageTable table;
  for (const LibraryPages &pages : segments)
    table.release(pages);
}

} // namespace pdc::runtime
