#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace pdc::runtime {

/// Where the elements of a tensor lie under a oneDNN format tag. A tag such as "ABcd16b16a" lists
/// the dimensions from slowest to fastest, blocked ones in upper case, then the inner blocks. The
/// position of an element is a sum of one term per dimension, so one table per dimension says all.
class Layout {
public:
  /// "" is row-major. Throws Error on a tag that does not fit the shape.
  Layout(std::string_view tag, std::span<const int64_t> shape);

  /// Elements in memory, padding included.
  int64_t elements() const { return stored; }
  /// Elements of the tensor itself.
  int64_t logicalElements() const { return logical; }

  /// Row-major to this layout. Padding becomes zero.
  void pack(const std::byte *rowMajor, std::byte *packed, int64_t elementBytes) const;
  /// This layout to row-major.
  void unpack(const std::byte *packed, std::byte *rowMajor, int64_t elementBytes) const;
  /// The same, piece by piece.
  using Piece = std::span<const std::byte>;
  void unpack(const std::byte *packed, int64_t elementBytes,
              const std::function<void(Piece)> &take) const;

private:
  struct Block {
    int dimension;
    int64_t size;
  };
  template <class Visit> void forEach(Visit visit) const;
  template <class T> void packAs(const std::byte *from, std::byte *to) const;
  template <class T>
  void unpackAs(const std::byte *from, const std::function<void(Piece)> &take) const;
  static std::vector<Block> parse(std::string_view tag, size_t rank, std::vector<int> &order);

  std::vector<std::vector<int64_t>> terms; ///< terms[d][i]: what index i of dimension d adds
  int64_t stored = 1;
  int64_t logical = 1;
};

} // namespace pdc::runtime
