#include "runtime/Layout.h"

#include "runtime/Error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <utility>

namespace pdc::runtime {

std::vector<Layout::Block> Layout::parse(std::string_view tag, size_t rank,
                                         std::vector<int> &order) {
  auto refuse = [&](const char *why) {
    return Error("layout '", std::string(tag), "' of a tensor with ", rank, " dimensions ", why);
  };
  std::vector<Block> blocks;
  std::vector<bool> seen(rank);
  size_t i = 0;
  for (; i < tag.size() && std::isalpha((unsigned char)tag[i]); ++i) {
    size_t dimension = std::tolower((unsigned char)tag[i]) - 'a';
    if (dimension >= rank || seen[dimension])
      throw refuse("names a dimension twice or one that is not there");
    seen[dimension] = true;
    order.push_back(int(dimension));
  }
  if (order.size() != rank)
    throw refuse("does not name every dimension");
  while (i < tag.size()) {
    int64_t size = 0;
    while (i < tag.size() && std::isdigit((unsigned char)tag[i]) && size < 4096)
      size = size * 10 + (tag[i++] - '0');
    size_t dimension = i < tag.size() ? size_t(tag[i++] - 'a') : rank;
    if (size < 1 || dimension >= rank)
      throw refuse("has an inner block that is not a number and a letter");
    blocks.push_back({int(dimension), size});
  }
  return blocks;
}

Layout::Layout(std::string_view tag, std::span<const int64_t> shape) {
  // 1. The order of the dimensions and the inner blocks.
  std::vector<int> order;
  std::vector<Block> blocks;
  if (tag.empty())
    for (size_t d = 0; d < shape.size(); ++d)
      order.push_back(int(d));
  else
    blocks = parse(tag, shape.size(), order);
  terms.resize(shape.size());
  std::vector<int64_t> blocked(shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) {
    terms[d].assign(shape[d], 0);
    logical *= shape[d];
  }
  // 2. Inner blocks, fastest first: each takes its digit of the index.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    for (int64_t i = 0; i < shape[block->dimension]; ++i)
      terms[block->dimension][i] += i / blocked[block->dimension] % block->size * stored;
    blocked[block->dimension] *= block->size;
    stored *= block->size;
  }
  // 3. What is left of each index, fastest dimension first.
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    for (int64_t i = 0; i < shape[*d]; ++i)
      terms[*d][i] += i / blocked[*d] * stored;
    stored *= (shape[*d] + blocked[*d] - 1) / blocked[*d];
  }
}

/// Calls visit(position in memory) for each element in row-major order.
template <class Visit> void Layout::forEach(Visit visit) const {
  if (logical == 0)
    return;
  if (terms.empty())
    return visit(0);
  const std::vector<int64_t> &last = terms.back();
  size_t outer = terms.size() - 1;
  std::vector<size_t> index(outer, 0);
  while (true) {
    int64_t start = 0;
    for (size_t d = 0; d < outer; ++d)
      start += terms[d][index[d]];
    for (int64_t term : last)
      visit(start + term);
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == terms[d - 1].size())
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

template <class T> void Layout::packAs(const std::byte *from, std::byte *to) const {
  T *target = reinterpret_cast<T *>(to);
  if (stored != logical)
    std::fill_n(target, stored, T(0));
  // In a file tensors may lie anywhere.
  forEach([&](int64_t position) {
    std::memcpy(target + position, from, sizeof(T));
    from += sizeof(T);
  });
}

template <class T>
void Layout::unpackAs(const std::byte *from, const std::function<void(Piece)> &take) const {
  const T *source = reinterpret_cast<const T *>(from);
  std::array<T, (1 << 16) / sizeof(T)> piece;
  size_t filled = 0;
  forEach([&](int64_t position) {
    std::memcpy(&piece[filled++], source + position, sizeof(T));
    if (filled == piece.size())
      take(std::as_bytes(std::span(piece.data(), std::exchange(filled, 0))));
  });
  if (filled > 0)
    take(std::as_bytes(std::span(piece.data(), filled)));
}

void Layout::pack(const std::byte *rowMajor, std::byte *packed, int64_t elementBytes) const {
  switch (elementBytes) {
  case 1:
    return packAs<uint8_t>(rowMajor, packed);
  case 2:
    return packAs<uint16_t>(rowMajor, packed);
  case 4:
    return packAs<uint32_t>(rowMajor, packed);
  default:
    return packAs<uint64_t>(rowMajor, packed);
  }
}

void Layout::unpack(const std::byte *packed, std::byte *rowMajor, int64_t elementBytes) const {
  unpack(packed, elementBytes, [&](Piece piece) {
    std::memcpy(rowMajor, piece.data(), piece.size());
    rowMajor += piece.size();
  });
}

void Layout::unpack(const std::byte *packed, int64_t elementBytes,
                    const std::function<void(Piece)> &take) const {
  switch (elementBytes) {
  case 1:
    return unpackAs<uint8_t>(packed, take);
  case 2:
    return unpackAs<uint16_t>(packed, take);
  case 4:
    return unpackAs<uint32_t>(packed, take);
  default:
    return unpackAs<uint64_t>(packed, take);
  }
}

} // namespace pdc::runtime
