#include "runtime/FileBytes.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <zlib.h>

namespace pdc::runtime {

/// Its descriptor and how many bytes it has.
static std::pair<int, int64_t> openFile(const std::string &path) {
  // A pipe would keep it waiting for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    int reason = errno;
    if (file >= 0)
      close(file);
    throw Error(path, ": cannot be read: ", file < 0 ? std::strerror(reason) : "not a file");
  }
  return {file, info.st_size};
}

int64_t fingerprintOf(const std::string &path) {
  constexpr int64_t kPieces = 64, kPieceBytes = 4096;
  const auto [file, size] = openFile(path);
  // FNV-1a, begun with the length.
  uint64_t hash = 0xCBF29CE484222325 ^ uint64_t(size);
  char piece[kPieceBytes];
  for (int64_t i = 0; i < kPieces; ++i) {
    const ssize_t count = pread(file, piece, kPieceBytes,
                                std::max<int64_t>(0, size - kPieceBytes) * i / (kPieces - 1));
    for (ssize_t k = 0; k < count; ++k)
      hash = (hash ^ uint8_t(piece[k])) * 0x100000001B3;
  }
  close(file);
  return int64_t(hash >> 1);
}

FileBytes::FileBytes(const std::string &path, Gzip gzip) : name(path) {
  int64_t size = 0;
  std::tie(file, size) = openFile(path);
  mapped = size_t(size);
  if (mapped > 0)
    mapping = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapping == MAP_FAILED) {
    int reason = errno;
    close(file);
    throw Error(path, ": cannot be mapped: ", std::strerror(reason));
  }
  view = {static_cast<const std::byte *>(mapping), mapped};
  if (gzip == Gzip::ifSo && mapped >= 2 && view[0] == std::byte{0x1f} && view[1] == std::byte{0x8b})
    inflate();
}

FileBytes::~FileBytes() {
  if (mapping)
    munmap(mapping, mapped);
  close(file);
}

void FileBytes::readTo(std::byte *to, const std::byte *from, size_t count) const {
  size_t done = 0;
  while (done < count) {
    ssize_t part = pread(file, to + done, count - done, off_t(from - view.data() + done));
    if (part < 0 && errno == EINTR)
      continue;
    if (part <= 0)
      throw Error(name, ": cannot be read any more: ",
                  part < 0 ? std::strerror(errno) : "it has been cut off since it was opened");
    done += size_t(part);
  }
}

const std::byte *FileBytes::read(const std::byte *from, size_t count,
                                 std::vector<std::byte> &buffer) const {
  if (mapping)
    buffer.resize(std::max(buffer.size(), count));
  return read(from, count, buffer.data());
}

const std::byte *FileBytes::read(const std::byte *from, size_t count, std::byte *place) const {
  if (!mapping)
    return from;
  readTo(place, from, count);
  return place;
}

const std::byte *FileBytes::keep(const std::byte *from, size_t count) {
  if (!mapping)
    return from;
  held.resize(count);
  readTo(held.data(), from, count);
  takeHeld();
  return view.data();
}

/// A page of the file that was read is in memory with its neighbours, up to two megabytes of them.
void FileBytes::takeHeld() {
  view = held;
  munmap(mapping, mapped);
  mapping = nullptr;
}

void FileBytes::release() const {
  if (mapping)
    madvise(mapping, mapped, MADV_DONTNEED);
}

/// The last four bytes of gzip data say its size modulo 2^32; a guess where it has several members.
size_t FileBytes::inflatedSize() const {
  constexpr size_t kMostPerByte = 1032; // that deflate can reach
  size_t size = 0;
  for (size_t i = 0; i < 4 && mapped >= 18; ++i)
    size |= size_t(view[mapped - 4 + i]) << (8 * i);
  return size <= mapped * kMostPerByte ? size : 0;
}

/// Straight into its place: what is taken and given back beside it stays in this process's memory.
void FileBytes::inflate() {
  constexpr size_t kLimit = size_t(1) << 36, kMostAtOnce = size_t(1) << 30;
  constexpr size_t kSlack = size_t(1) << 16;
  gzFile file = gzopen(name.c_str(), "rb");
  if (!file)
    throw Error(name, ": cannot be read as gzip data");
  held.resize(inflatedSize());
  size_t size = 0;
  for (int read = 1; read > 0 && size < kLimit; size += size_t(std::max(read, 0))) {
    std::byte next{};
    bool isFull = size == held.size();
    read = gzread(file, isFull ? &next : held.data() + size,
                  isFull ? 1 : unsigned(std::min(held.size() - size, kMostAtOnce)));
    if (isFull && read > 0) {
      held.resize(size + std::max(size / 2, size_t(1) << 20));
      held[size] = next;
    }
  }
  int status = Z_OK;
  gzerror(file, &status);
  gzclose(file);
  if (size >= kLimit || status != Z_OK)
    throw Error(name, ": the gzip data is damaged or cut off after ", size, " bytes");
  held.resize(size);
  // The guess is the files' own word.
  if (held.capacity() > size + size / 8 + kSlack)
    held.shrink_to_fit();
  takeHeld();
}

} // namespace pdc::runtime
