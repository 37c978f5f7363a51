#include "runtime/MemoryInUse.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace pdc::runtime {

/// Of a line such as "Rss:      12 kB"; 0 for other fields.
static int64_t fieldBytes(const std::string &line, std::string_view field) {
  return line.starts_with(field) ? std::stoll(line.substr(field.size())) * 1024 : 0;
}

/// Of a line such as "7f5e0000-7f5e2000 r-xp 00001000 fe:00 1234  /lib/libm.so.6".
static bool isReadOnlyFile(const std::string &mapping) {
  std::istringstream fields(mapping);
  std::string addresses, permissions, offset, device;
  int64_t file = 0;
  fields >> addresses >> permissions >> offset >> device >> file;
  return permissions.size() > 1 && permissions[1] == '-' && file != 0;
}

namespace {
/// Pages in memory, counted one by one: the counters of a process as a whole are kept per core and
/// may be off by some hundred kilobytes.
struct ResidentPages {
  int64_t all = 0, ofFiles = 0;
};
} // namespace

static ResidentPages residentPages() {
  std::ifstream mappings("/proc/self/smaps");
  ResidentPages pages;
  bool readOnlyFile = false;
  for (std::string line; std::getline(mappings, line);) {
    if (line.find('-') < line.find(' ')) {
      readOnlyFile = isReadOnlyFile(line);
      continue;
    }
    const int64_t resident = fieldBytes(line, "Rss:");
    pages.all += resident;
    // What was written there, such as relocated code, is the process's own.
    if (readOnlyFile)
      pages.ofFiles += resident - fieldBytes(line, "Anonymous:");
  }
  return pages;
}

MemoryInUse memoryInUse() {
  const ResidentPages pages = residentPages();
  int64_t now = pages.all, highest = 0;
  // Not getrusage: that keeps the peak of whoever started the process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    highest += fieldBytes(line, "VmHWM:");
    if (pages.all == 0)
      now += fieldBytes(line, "VmRSS:");
  }
  highest = std::max(highest, now);
  return {now - pages.ofFiles, highest - pages.ofFiles, highest};
}

} // namespace pdc::runtime
