#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

/// Tells files apart by their length and by pieces from their beginning to their end. Throws Error
/// when the file cannot be read.
int64_t fingerprintOf(const std::string &path);

/// The bytes of a file: mapped, or held in memory: inflated when the file is gzipped.
class FileBytes {
public:
  /// Throws Error when the file cannot be read or its compressed data is damaged.
  enum class Gzip { ifSo, never };
  explicit FileBytes(const std::string &path, Gzip gzip = Gzip::ifSo);
  ~FileBytes();
  FileBytes(const FileBytes &) = delete;
  FileBytes &operator=(const FileBytes &) = delete;

  std::span<const std::byte> bytes() const { return view; }
  const std::string &path() const { return name; }
  /// A part of `bytes()` for one use. Of a mapped file it is read into `buffer`: what is mapped and
  /// touched would stay in this process's memory. Throws Error where the file has been cut off.
  const std::byte *read(const std::byte *from, size_t count, std::vector<std::byte> &buffer) const;
  /// The same, read to a place of the caller's.
  const std::byte *read(const std::byte *from, size_t count, std::byte *place) const;
  /// Holds a part of `bytes()` in memory and nothing else; returns where it then is.
  const std::byte *keep(const std::byte *from, size_t count);
  /// Gives back the memory of what has been touched of a mapped file.
  void release() const;
  /// What stays in memory.
  int64_t heldBytes() const { return int64_t(held.capacity()); }

private:
  void inflate();
  void readTo(std::byte *to, const std::byte *from, size_t count) const;
  void takeHeld();
  size_t inflatedSize() const;

  std::string name;
  std::span<const std::byte> view;
  int file = -1;
  void *mapping = nullptr;
  size_t mapped = 0;
  std::vector<std::byte> held;
};

} // namespace pdc::runtime
