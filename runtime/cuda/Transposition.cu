#include "runtime/cuda/Transposition.h"

#include "runtime/cuda/Divisor.h"
#include "runtime/cuda/Lanes.h"

#include <algorithm>
#include <utility>

namespace pdc::runtime::cuda {

namespace {

/// Turns a matrix of Rows x Columns, which lies in the pieces row by row.
template <int Rows, int Columns, class T, int Width, int Count>
__device__ void turn(Packed<T, Width> (&pieces)[Count]) {
  static_assert(Rows * Columns == Count * Width);
  Lanes<T, Width> from[Count], to[Count];
  PDC_UNROLL
  for (int i = 0; i < Count; ++i)
    from[i] = std::bit_cast<Lanes<T, Width>>(pieces[i]);
  PDC_UNROLL
  for (int i = 0; i < Rows * Columns; ++i) {
    const int turned = i % Columns * Rows + i / Columns;
    to[turned / Width].at[turned % Width] = from[i / Width].at[i % Width];
  }
  PDC_UNROLL
  for (int i = 0; i < Count; ++i)
    pieces[i] = std::bit_cast<Packed<T, Width>>(to[i]);
}

/// `Count` neighbours, of which `present` are there: with one access, or one by one.
template <int Count, bool AtOnce, class T>
__device__ Packed<T, Count> fetchPresent(const T *from, int present) {
  if constexpr (AtOnce) {
    return present > 0 ? fetch<Count>(from) : Packed<T, Count>();
  } else {
    Lanes<T, Count> elements;
    for (int i = 0; i < Count; ++i)
      elements.at[i] = i < present ? from[i] : T(0);
    return std::bit_cast<Packed<T, Count>>(elements);
  }
}
template <int Count, bool AtOnce, class T>
__device__ void storePresent(T *to, const Packed<T, Count> &piece, int present) {
  if constexpr (AtOnce) {
    if (present > 0)
      *reinterpret_cast<Packed<T, Count> *>(to) = piece;
  } else {
    const auto elements = std::bit_cast<Lanes<T, Count>>(piece);
    for (int i = 0; i < Count; ++i)
      if (i < present)
        to[i] = elements.at[i];
  }
}

/// Whether all rows of `size` elements begin at multiples of `Count`.
template <int Count, class T> bool beginAtMultiples(const T *rows, int64_t size) {
  return size % Count == 0 && reinterpret_cast<uintptr_t>(rows) % (Count * sizeof(T)) == 0;
}

/// Elements of a row that threads move with one access: two of 16 bits.
template <class T> inline constexpr int kEach = sizeof(T) == 2 ? 2 : 1;
template <class T> inline constexpr int kSide = kWarpThreads *kEach<T>; ///< of a tile
constexpr int kTileThreads = 128, kLines = kTileThreads / kWarpThreads;

/// The tiles of a matrix: a block's number tells its matrix, row and column of tiles.
struct Tiles {
  int64_t rows, columns;
  Divisor<int32_t> across, perMatrix;
};

/// Through a tile in shared memory, so that reads and writes both run along rows. A piece of it has
/// kEach rows of a column, since threads turn squares of kEach x kEach; a square's columns stand
/// kWarpThreads apart, so that a warp meets in no bank.
template <class T, bool ReadsAtOnce, bool WritesAtOnce>
__global__ void turnTiles(Tiles tiles, const T *x, T *y) {
  constexpr int each = kEach<T>, side = kSide<T>, steps = kWarpThreads / kLines;
  __shared__ Packed<T, each> tile[kWarpThreads][side + 1];
  const int32_t block = static_cast<int32_t>(blockIdx.x);
  const int32_t matrix = tiles.perMatrix.quotient(block);
  const int32_t ofMatrix = block - matrix * tiles.perMatrix.value();
  const int32_t down = tiles.across.quotient(ofMatrix);
  const int64_t top = int64_t(down) * side;
  const int64_t left = int64_t(ofMatrix - down * tiles.across.value()) * side;
  const int rows = static_cast<int>(tiles.rows - top < side ? tiles.rows - top : side);
  const int columns = static_cast<int>(tiles.columns - left < side ? tiles.columns - left : side);
  const int lane = int(threadIdx.x) % kWarpThreads, line = int(threadIdx.x) / kWarpThreads;
  const int64_t begin = matrix * tiles.rows * tiles.columns;

  Packed<T, each> squares[steps][each];
  const T *from = x + begin + (top + line * each) * tiles.columns + left + lane * each;
  PDC_UNROLL
  for (int i = 0; i < steps * each; ++i) {
    const int row = i / each * kLines * each + i % each;
    squares[i / each][i % each] = fetchPresent<each, ReadsAtOnce>(
        from + row * tiles.columns, line * each + row < rows ? columns - lane * each : 0);
  }
  PDC_UNROLL
  for (int i = 0; i < steps * each; ++i) {
    if (i % each == 0)
      turn<each, each>(squares[i / each]);
    tile[line + i / each * kLines][i % each * kWarpThreads + lane] = squares[i / each][i % each];
  }
  __syncthreads();
  T *to = y + begin + (left + line * each) * tiles.rows + top + lane * each;
  PDC_UNROLL
  for (int i = 0; i < steps * each; ++i) {
    const int column = i / each * kLines * each + i % each;
    storePresent<each, WritesAtOnce>(to + column * tiles.rows,
                                     tile[lane][i % each * kWarpThreads + line + i / each * kLines],
                                     line * each + column < columns ? rows - lane * each : 0);
  }
}

template <class T>
void startTiles(const Run &run, int64_t matrices, int64_t rows, int64_t columns, const T *x, T *y) {
  const int64_t across = ceilDivide(columns, kSide<T>);
  const int64_t perMatrix = across * ceilDivide(rows, kSide<T>);
  const Tiles tiles{rows, columns, Divisor<int32_t>(across), Divisor<int32_t>(perMatrix)};
  auto start = [&](void (*kernel)(Tiles, const T *, T *)) {
    launch(run, matrices * perMatrix, kTileThreads, kernel, tiles, x, y);
  };
  if constexpr (kEach<T> == 1) {
    start(turnTiles<T, true, true>);
  } else {
    const bool writes = beginAtMultiples<kEach<T>>(y, rows);
    if (beginAtMultiples<kEach<T>>(x, columns))
      start(writes ? turnTiles<T, true, true> : turnTiles<T, true, false>);
    else
      start(writes ? turnTiles<T, false, true> : turnTiles<T, false, false>);
  }
}

/// Long rows of which there are at most so many, as images of few channels have them, would leave
/// tiles empty: a thread has kRun elements of each, in pieces of `Width`.
constexpr int kMostFew = 8, kFewThreads = 128;
template <class T> inline constexpr int kRun = 16 / sizeof(T);

/// What a block has of a matrix of few long rows, and of its transpose, where that is in one
/// stretch. This one goes through shared memory, so that neighbouring threads have neighbouring
/// pieces of it. All is counted in pieces.
template <class T, int Few, int Width> struct FewRows {
  using Piece = Packed<T, Width>;
  static constexpr int kSteps = kRun<T> / Width, kChunk = kFewThreads * kSteps;

  int64_t length; ///< of a row
  int64_t ofRow, ofStretch;
  int present; ///< in the block's part of a row

  __device__ FewRows(int64_t length, const Divisor<int32_t> &chunks) : length(length) {
    const int32_t block = static_cast<int32_t>(blockIdx.x), matrix = chunks.quotient(block);
    const int64_t begin = int64_t(block - matrix * chunks.value()) * kChunk;
    ofRow = matrix * length * Few + begin;
    ofStretch = ofRow + begin * (Few - 1);
    present = static_cast<int>(length - begin < kChunk ? length - begin : kChunk);
  }

  /// each(i, where piece i of the thread is in memory, where in shared memory, whether it is there)
  template <class Each> __device__ void overStretch(Each each) const {
    PDC_UNROLL
    for (int i = 0; i < kSteps * Few; ++i) {
      const int piece = i * kFewThreads + int(threadIdx.x);
      each(i, ofStretch + piece, place(piece), piece < present * Few);
    }
  }
  template <class Each> __device__ void overRows(Each each) const {
    PDC_UNROLL
    for (int i = 0; i < kSteps * Few; ++i) {
      const int piece = i / Few * kFewThreads + int(threadIdx.x);
      each(i, ofRow + i % Few * length + piece, place(piece * Few + i % Few), piece < present);
    }
  }

  /// Threads whose pieces are an even number apart would meet in few banks.
  static PDC_EITHER constexpr int place(int piece) {
    return Few % 2 == 0 ? piece + piece / 8 : piece;
  }
  static constexpr int kPlaces = place(kChunk * Few - 1) + 1;
};

template <class T, int Few, int Width>
__global__ void joinFew(int64_t length, Divisor<int32_t> chunks, const Packed<T, Width> *x,
                        Packed<T, Width> *y) {
  using Rows = FewRows<T, Few, Width>;
  __shared__ Packed<T, Width> shared[Rows::kPlaces];
  Packed<T, Width> pieces[Rows::kSteps][Few];
  const Rows rows(length, chunks);
  rows.overRows([&](int i, int64_t at, int, bool isThere) {
    pieces[i / Few][i % Few] = isThere ? x[at] : Packed<T, Width>();
  });
  PDC_UNROLL
  for (auto &each : pieces)
    turn<Few, Width>(each);
  rows.overRows([&](int i, int64_t, int place, bool) { shared[place] = pieces[i / Few][i % Few]; });
  __syncthreads();
  rows.overStretch([&](int, int64_t at, int place, bool isThere) {
    if (isThere)
      y[at] = shared[place];
  });
}

template <class T, int Few, int Width>
__global__ void separateFew(int64_t length, Divisor<int32_t> chunks, const Packed<T, Width> *x,
                            Packed<T, Width> *y) {
  using Rows = FewRows<T, Few, Width>;
  __shared__ Packed<T, Width> shared[Rows::kPlaces];
  Packed<T, Width> pieces[Rows::kSteps][Few];
  const Rows rows(length, chunks);
  rows.overStretch([&](int i, int64_t at, int, bool isThere) {
    pieces[i / Few][i % Few] = isThere ? x[at] : Packed<T, Width>();
  });
  rows.overStretch(
      [&](int i, int64_t, int place, bool) { shared[place] = pieces[i / Few][i % Few]; });
  __syncthreads();
  rows.overRows([&](int i, int64_t, int place, bool) { pieces[i / Few][i % Few] = shared[place]; });
  PDC_UNROLL
  for (auto &each : pieces)
    turn<Width, Few>(each);
  rows.overRows([&](int i, int64_t at, int, bool isThere) {
    if (isThere)
      y[at] = pieces[i / Few][i % Few];
  });
}

template <int Few, int Width, class T>
void startPieces(const Run &run, int64_t matrices, bool joins, int64_t length, const T *x, T *y) {
  using Piece = Packed<T, Width>;
  const int64_t chunks = ceilDivide(length, FewRows<T, Few, Width>::kChunk * Width);
  launch(run, matrices * chunks, kFewThreads,
         joins ? joinFew<T, Few, Width> : separateFew<T, Few, Width>, length / Width,
         Divisor<int32_t>(chunks), reinterpret_cast<const Piece *>(x),
         reinterpret_cast<Piece *>(y));
}

template <int Few, class T>
void startFew(const Run &run, int64_t matrices, bool joins, int64_t length, const T *x, T *y) {
  if (beginAtMultiples<kRun<T>>(x, length) && beginAtMultiples<kRun<T>>(y, length))
    startPieces<Few, kRun<T>>(run, matrices, joins, length, x, y);
  else
    startPieces<Few, 1>(run, matrices, joins, length, x, y);
}

/// By as many rows as `few` says.
template <class T, int... Less>
void startFewOf(std::integer_sequence<int, Less...>, int64_t few, const Run &run, int64_t matrices,
                bool joins, int64_t length, const T *x, T *y) {
  (void)((few == Less + 2 && (startFew<Less + 2>(run, matrices, joins, length, x, y), true)) ||
         ...);
}

/// Whether one side is short enough, and the other long enough.
bool areFew(int64_t rows, int64_t columns, size_t elementBytes) {
  const auto [few, length] = std::minmax(rows, columns);
  return (elementBytes == 2 || elementBytes == 4) && few >= 2 && few <= kMostFew &&
         length >= kFewThreads;
}

} // namespace

bool fillsBlocks(int64_t rows, int64_t columns, size_t elementBytes) {
  constexpr int64_t least = 8;
  return areFew(rows, columns, elementBytes) || std::min(rows, columns) >= least;
}

template <class T>
void transpose(const Run &run, int64_t matrices, int64_t rows, int64_t columns, const T *x, T *y) {
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4)
    if (areFew(rows, columns, sizeof(T)))
      return startFewOf(std::make_integer_sequence<int, kMostFew - 1>(), std::min(rows, columns),
                        run, matrices, rows < columns, std::max(rows, columns), x, y);
  startTiles(run, matrices, rows, columns, x, y);
}

template void transpose(const Run &, int64_t, int64_t, int64_t, const uint8_t *, uint8_t *);
template void transpose(const Run &, int64_t, int64_t, int64_t, const uint16_t *, uint16_t *);
template void transpose(const Run &, int64_t, int64_t, int64_t, const uint32_t *, uint32_t *);
template void transpose(const Run &, int64_t, int64_t, int64_t, const uint64_t *, uint64_t *);

} // namespace pdc::runtime::cuda
