#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

/// The bytes of a file: mapped, or inflated when the file is gzipped.
class FileBytes {
public:
  /// Throws Error when the file cannot be read or its compressed data is damaged.
  explicit FileBytes(const std::string &path);
  ~FileBytes();
  FileBytes(const FileBytes &) = delete;
  FileBytes &operator=(const FileBytes &) = delete;

  std::span<const std::byte> bytes() const { return view; }
  const std::string &path() const { return name; }

private:
  void inflate();

  std::string name;
  std::span<const std::byte> view;
  void *mapping = nullptr;
  size_t mapped = 0;
  std::vector<std::byte> inflated;
};

} // namespace pdc::runtime
