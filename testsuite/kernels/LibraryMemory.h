#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pdc {

/// A mapping of oneDNN's file, by the kernel's account.
struct LibraryMapping {
  std::string permissions;
  uintptr_t begin = 0, end = 0;
  int64_t residentKiB = 0;
};

inline std::vector<LibraryMapping> libraryMappings() {
  std::ifstream mappings("/proc/self/smaps");
  std::vector<LibraryMapping> all;
  bool isLibrary = false;
  for (std::string line; std::getline(mappings, line);) {
    if (line.find('-') < line.find(' ')) {
      isLibrary = line.find("libdnnl") != line.npos;
      std::istringstream text(line);
      LibraryMapping mapping;
      char dash = 0;
      if (isLibrary &&
          text >> std::hex >> mapping.begin >> dash >> mapping.end >> mapping.permissions)
        all.push_back(mapping);
    } else if (isLibrary && line.starts_with("Rss:")) {
      all.back().residentKiB = std::stoll(line.substr(4));
    }
  }
  return all;
}

/// KiB in memory of oneDNN's code.
inline int64_t residentLibraryCode() {
  int64_t sum = 0;
  for (const LibraryMapping &mapping : libraryMappings())
    sum += mapping.permissions == "r-xp" ? mapping.residentKiB : 0;
  return sum;
}

/// Brings all of it into memory.
inline void readLibraryCode() {
  for (const LibraryMapping &mapping : libraryMappings())
    for (uintptr_t at = mapping.begin; mapping.permissions == "r-xp" && at < mapping.end;
         at += 4096)
      (void)*reinterpret_cast<const volatile char *>(at);
}

} // namespace pdc
