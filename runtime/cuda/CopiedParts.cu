#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/cuda/Parts.h"

#include "runtime/Error.h"

#include <numeric>

/// Concat and Split: a whole, whose rows are a row of each part after the other.
namespace pdc::runtime::cuda {

namespace {

/// A part and where its first row begins in the whole; in bytes.
struct CopiedPart {
  std::byte *rows;
  int64_t at, width;
};

/// Part i is copied by blocks firstBlock[i] to firstBlock[i + 1] - 1 (tensorOf).
template <int Most> struct CopiedParts {
  std::byte *whole;
  int64_t width; ///< of its rows
  int64_t rows;
  bool joins; ///< parts into the whole
  int size;
  unsigned firstBlock[Most + 1];
  CopiedPart parts[Most];
};
constexpr int kFewParts = 16, kMostParts = 1024;
static_assert(sizeof(CopiedParts<kMostParts>) <= kParameterBytes, "CUDA takes no more parameters");

/// A piece per thread. The parameters stay where they are: a copy of the table in each thread would
/// be slow.
template <class Piece, int Most>
__global__ void copyParts(const __grid_constant__ CopiedParts<Most> table) {
  constexpr int64_t size = sizeof(Piece);
  const int which = tensorOf(table.firstBlock, table.size, blockIdx.x);
  const CopiedPart &part = table.parts[which];
  const int64_t width = part.width / size;
  const int64_t i = int64_t(blockIdx.x - table.firstBlock[which]) * kBlockThreads + threadIdx.x;
  if (i >= table.rows * width)
    return;
  const int64_t row = i / width, column = i - row * width;
  auto *ofPart = reinterpret_cast<Piece *>(part.rows) + i;
  auto *ofWhole =
      reinterpret_cast<Piece *>(table.whole) + row * (table.width / size) + part.at / size + column;
  table.joins ? *ofWhole = *ofPart : *ofPart = *ofWhole;
}

/// In the largest pieces at whose multiples all rows begin.
template <int Most> void start(const Run &run, CopiedParts<Most> &table) {
  auto bits = reinterpret_cast<uintptr_t>(table.whole) | uintptr_t(table.width);
  for (int i = 0; i < table.size; ++i)
    bits |= reinterpret_cast<uintptr_t>(table.parts[i].rows) |
            uintptr_t(table.parts[i].at | table.parts[i].width);
  auto copy = [&]<class Piece>(Piece) {
    for (int i = 0; i < table.size; ++i)
      table.firstBlock[i + 1] =
          table.firstBlock[i] +
          unsigned(ceilDivide(table.rows * table.parts[i].width / int64_t(sizeof(Piece)),
                              kBlockThreads));
    launch(run, table.firstBlock[table.size], kBlockThreads, copyParts<Piece, Most>, table);
  };
  bits % 16 == 0  ? copy(Lanes<float, 4>())
  : bits % 8 == 0 ? copy(uint64_t())
  : bits % 4 == 0 ? copy(uint32_t())
  : bits % 2 == 0 ? copy(uint16_t())
                  : copy(uint8_t());
}

template <int Most>
void copy(const Run &run, std::byte *whole, int64_t width, int64_t rows, bool joins,
          std::span<const CopiedPart> parts) {
  for (size_t first = 0; first < parts.size(); first += Most) {
    const auto some = parts.subspan(first, std::min<size_t>(parts.size() - first, Most));
    CopiedParts<Most> table{whole, width, rows, joins, int(some.size()), {}, {}};
    std::ranges::copy(some, table.parts);
    start(run, table);
  }
}

int64_t sum(const std::vector<int64_t> &values, size_t count) {
  return std::accumulate(values.begin(), values.begin() + int64_t(count), int64_t(0));
}

/// `Fields`: ConcatFields, SplitFields.
template <class Fields>
void copy(const Run &run, const Fields &fields, const void *whole, bool joins,
          std::span<const CopiedPart> parts) {
  auto *rows = static_cast<std::byte *>(const_cast<void *>(whole));
  const int64_t width = sum(fields.blockBytes, fields.blockBytes.size());
  parts.size() <= kFewParts ? copy<kFewParts>(run, rows, width, fields.outer, joins, parts)
                            : copy<kMostParts>(run, rows, width, fields.outer, joins, parts);
}

/// Nothing of a part without elements.
void add(std::vector<CopiedPart> &parts, const std::vector<int64_t> &widths, size_t number,
         const void *rows) {
  if (widths.at(number) > 0)
    parts.push_back(
        {static_cast<std::byte *>(const_cast<void *>(rows)), sum(widths, number), widths[number]});
}

} // namespace

void Concat::call(const Run &run, std::initializer_list<const void *> pointers) const {
  const size_t count = fields.blockBytes.size();
  if (pointers.size() != count + 1)
    throw Error("concat: called with ", pointers.size(), " tensors, expected ", count + 1);
  std::vector<CopiedPart> parts;
  for (size_t i = 0; i < count; ++i)
    add(parts, fields.blockBytes, i, pointers.begin()[i]);
  copy(run, fields, pointers.begin()[count], true, parts);
}

void Split::call(const Run &run, const void *x, std::initializer_list<void *> results) const {
  if (results.size() != fields.results.size())
    throw Error("split: called with ", results.size(), " results, expected ",
                fields.results.size());
  std::vector<CopiedPart> parts;
  for (size_t i = 0; i < results.size(); ++i)
    add(parts, fields.blockBytes, size_t(fields.results[i]), results.begin()[i]);
  copy(run, fields, x, false, parts);
}

} // namespace pdc::runtime::cuda
