#include "runtime/Error.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Team.h"

#include <cmath>
#include <initializer_list>
#include <type_traits>

namespace pdc::runtime::cuda {

namespace {

/// How a team of threads walks along a row: each thread has every `Threads`th chunk of `Width`
/// elements, of which there are `Held` at most, or any number where Held is 0.
template <int Threads, int Width, int Held> struct RowWalk {
  using Chunk = Lanes<float, Width>;
  using Row = Team<Threads>;
  int64_t size;

  /// use(number of the thread's chunk, its first element).
  template <class Use> __device__ void each(Use use) const {
    if constexpr (Held > 0) {
      PDC_UNROLL
      for (int j = 0; j < Held; ++j)
        if (const int64_t k = (Row::thread() + j * Threads) * Width; k < size)
          use(j, k);
    } else {
      for (int64_t k = Row::thread() * Width; k < size; k += Threads * Width)
        use(0, k);
    }
  }
};

/// What read(first element) gives for a thread's chunks: held in registers, or read each time.
template <int Threads, int Width, int Held, class Read> class HeldRow {
public:
  using Walk = RowWalk<Threads, Width, Held>;
  __device__ HeldRow(const Walk &walk, const Read &read) : read(read) {
    if constexpr (Held > 0)
      walk.each([&](int j, int64_t k) { held[j] = read(k); });
  }
  __device__ typename Walk::Chunk operator()(int j, int64_t k) const {
    if constexpr (Held > 0)
      return held[j];
    else
      return read(k);
  }

private:
  const Read &read;
  typename Walk::Chunk held[Held > 0 ? Held : 1];
};

/// As it is stored: what is made of a sum does not depend on where it is added up.
template <class T, int Width> __device__ Lanes<float, Width> stored(Lanes<float, Width> values) {
  for (int lane = 0; lane < Width; ++lane)
    values.at[lane] = static_cast<float>(static_cast<T>(values.at[lane]));
  return values;
}

template <int Width>
__device__ Lanes<float, Width> add(Lanes<float, Width> a, const Lanes<float, Width> &b) {
  for (int lane = 0; lane < Width; ++lane)
    a.at[lane] += b.at[lane];
  return a;
}

template <class T> struct NormalisedRows {
  const T *x, *addend; ///< the latter null where x is no sum
  const float *scale, *bias;
  T *sum, *y; ///< the former null where nobody wants it
  float *mean, *inverse;
};

/// A team per row: the mean first, then the squared deviations from it.
template <int Threads, int Width, int Held, class T>
__global__ void normaliseRows(LayerNormalizationFields f, NormalisedRows<T> in) {
  using Walk = RowWalk<Threads, Width, Held>;
  using Chunk = typename Walk::Chunk;
  const int64_t row = Walk::Row::index(), size = f.size;
  if (row >= f.rows)
    return;
  const T *x = in.x + row * size, *addend = in.addend ? in.addend + row * size : nullptr;
  T *const sum = in.sum ? in.sum + row * size : nullptr;
  auto read = [&](int64_t k) {
    const Chunk value = load<Width>(x + k);
    return addend ? stored<T>(add(value, load<Width>(addend + k))) : value;
  };
  const Walk walk{size};
  const HeldRow<Threads, Width, Held, decltype(read)> rowOf(walk, read);
  float total = 0, squares = 0;
  walk.each([&](int j, int64_t k) {
    const Chunk value = rowOf(j, k);
    if (sum)
      store(sum + k, value);
    for (int lane = 0; lane < Width; ++lane)
      total += value.at[lane];
  });
  // Where the row is read again the sum may have taken its place.
  if (sum)
    x = sum, addend = nullptr;
  total = Walk::Row::sum(total);
  const float center = f.centred ? total / static_cast<float>(size) : 0;
  walk.each([&](int j, int64_t k) {
    const Chunk value = rowOf(j, k);
    for (int lane = 0; lane < Width; ++lane)
      squares += (value.at[lane] - center) * (value.at[lane] - center);
  });
  const double variance = Walk::Row::sum(squares) / static_cast<double>(size);
  const float factor = static_cast<float>(1 / sqrt(variance + f.epsilon));
  walk.each([&](int j, int64_t k) {
    Chunk value = rowOf(j, k);
    const Chunk scale = load<Width>(in.scale + k),
                bias = in.bias ? load<Width>(in.bias + k) : Chunk{};
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - center) * factor * scale.at[lane] + bias.at[lane];
    store(in.y + row * size + k, value);
  });
  if (in.mean && Walk::Row::thread() == 0)
    in.mean[row] = center;
  if (in.inverse && Walk::Row::thread() == 0)
    in.inverse[row] = factor;
}

constexpr int kMostTerms = LayerNormalizationFields::kMostTerms;

template <class T> struct RowGradients {
  const T *terms[kMostTerms]; ///< what arrives is the sum of those that are there
  const T *x;
  const float *scale, *mean, *inverse;
  const T *addend;  ///< to the gradient; may be null
  T *arriving, *dx; ///< the former null where nobody wants that sum
};

/// With g = dy scale and h the normalised row: dx = inverse (g - mean(g) - h mean(g h)), without
/// mean(g) where rows are not centred.
template <int Threads, int Width, int Held, class T>
__global__ void rowGradients(int64_t rows, int64_t size, RowGradients<T> in) {
  using Walk = RowWalk<Threads, Width, Held>;
  using Chunk = typename Walk::Chunk;
  const int64_t row = Walk::Row::index(), first = row * size;
  if (row >= rows)
    return;
  const float center = in.mean ? in.mean[row] : 0, factor = in.inverse[row];
  T *const arriving = in.arriving ? in.arriving + first : nullptr;
  bool isStored = false; // the sum, where it is kept
  auto readGradient = [&](int64_t k) {
    if (isStored)
      return load<Width>(static_cast<const T *>(arriving) + k);
    Chunk value = load<Width>(in.terms[0] + first + k);
    PDC_UNROLL
    for (int t = 1; t < kMostTerms; ++t)
      if (in.terms[t])
        value = add(value, load<Width>(in.terms[t] + first + k));
    return in.terms[1] ? stored<T>(value) : value;
  };
  auto readRow = [&](int64_t k) {
    Chunk value = load<Width>(in.x + first + k);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - center) * factor;
    return value;
  };
  const Walk walk{size};
  const HeldRow<Threads, Width, Held, decltype(readGradient)> gradientOf(walk, readGradient);
  const HeldRow<Threads, Width, Held, decltype(readRow)> rowOf(walk, readRow);
  float sum = 0, product = 0;
  walk.each([&](int j, int64_t k) {
    const Chunk g = gradientOf(j, k), h = rowOf(j, k), scale = load<Width>(in.scale + k);
    if (arriving)
      store(arriving + k, g);
    for (int lane = 0; lane < Width; ++lane) {
      const float scaled = g.at[lane] * scale.at[lane];
      sum += scaled, product += scaled * h.at[lane];
    }
  });
  // Where the row is read again the sum may have taken a term's place.
  isStored = arriving != nullptr;
  sum = Walk::Row::sum(sum);
  sum = in.mean ? sum / static_cast<float>(size) : 0;
  product = Walk::Row::sum(product) / static_cast<float>(size);
  walk.each([&](int j, int64_t k) {
    const Chunk g = gradientOf(j, k), h = rowOf(j, k), scale = load<Width>(in.scale + k);
    Chunk dx;
    for (int lane = 0; lane < Width; ++lane)
      dx.at[lane] = factor * (g.at[lane] * scale.at[lane] - sum - h.at[lane] * product);
    if (in.addend)
      dx = add(stored<T>(dx), load<Width>(in.addend + first + k));
    store(in.dx + first + k, dx);
  });
}

/// start(Threads, Width, Held, as types) for the team of a row: rows of up to so many chunks of
/// four for each thread are held.
template <class Start> void forRows(int64_t rows, int64_t size, Start start) {
  constexpr int kHeld = 8;
  const TeamShape teams = TeamShape::of(rows, size);
  auto with = [&](auto threads) {
    using Zero = std::integral_constant<int, 0>;
    using Four = std::integral_constant<int, kLanes>;
    if (size % kLanes != 0)
      start(teams.blocks, threads, std::integral_constant<int, 1>(), Zero());
    else if (size <= int64_t(threads) * kLanes * kHeld)
      start(teams.blocks, threads, Four(), std::integral_constant<int, kHeld>());
    else
      start(teams.blocks, threads, Four(), Zero());
  };
  if (teams.threads == kWarpThreads)
    with(std::integral_constant<int, kWarpThreads>());
  else
    with(std::integral_constant<int, kBlockThreads>());
}

/// What arrives times the normalised row, and what arrives.
template <class T, int Count> struct ScaleMoments {
  const T *dy, *x;
  const float *mean, *inverse;
  int64_t size;
  template <int Width> __device__ Sums<Count, Width> at(int64_t row, int64_t k) const {
    const auto gradient = load<Width>(dy + row * size + k);
    Sums<Count, Width> sums = {{gradient}};
    const auto value = load<Width>(x + row * size + k);
    const float center = mean ? mean[row] : 0, factor = inverse[row];
    for (int lane = 0; lane < Width; ++lane)
      sums.at[0].at[lane] *= (value.at[lane] - center) * factor;
    if constexpr (Count > 1)
      sums.at[1] = gradient;
    return sums;
  }
};

template <int Count> struct StoreSums {
  float *to[Count];
  bool add;
  __device__ void operator()(int64_t column, const double *sums) const {
    for (int k = 0; k < Count; ++k) {
      const float value = static_cast<float>(sums[k]);
      to[k][column] = add ? to[k][column] + value : value;
    }
  }
};

/// The next of a call's pointers.
class Pointers {
public:
  explicit Pointers(std::initializer_list<const void *> all) : all(all) {}
  template <class T> T *take() {
    if (next == all.size())
      throw Error("layer normalization: called with ", all.size(), " tensors, expected more");
    return static_cast<T *>(const_cast<void *>(all.begin()[next++]));
  }
  size_t left() const { return all.size() - next; }

private:
  std::initializer_list<const void *> all;
  size_t next = 0;
};

} // namespace

/// The row or the two that it is the sum of, scale, bias; that sum, y, the mean, the inverse.
template <class T>
void LayerNormalization::call(const Run &run, std::initializer_list<const void *> all) const {
  Pointers next(all);
  NormalisedRows<T> in = {};
  in.x = next.take<const T>();
  in.addend = fields.addend ? next.take<const T>() : nullptr;
  in.scale = next.take<const float>();
  in.bias = next.take<const float>();
  in.sum = fields.keepsSum ? next.take<T>() : nullptr;
  in.y = next.take<T>();
  in.mean = next.left() > 1 ? next.take<float>() : nullptr;
  in.inverse = next.left() > 0 ? next.take<float>() : nullptr;
  forRows(fields.rows, fields.size, [&](int64_t blocks, auto threads, auto width, auto held) {
    launch(
        run, blocks, kBlockThreads,
        normaliseRows<decltype(threads)::value, decltype(width)::value, decltype(held)::value, T>,
        fields, in);
  });
}

/// What arrives or the terms that it is the sum of, x, scale, mean, inverse, the addend; that sum,
/// dx.
template <class T>
void LayerNormalizationInputGradient::call(const Run &run,
                                           std::initializer_list<const void *> all) const {
  Pointers next(all);
  RowGradients<T> in = {};
  for (int64_t term = 0; term < fields.terms; ++term)
    in.terms[term] = next.take<const T>();
  in.x = next.take<const T>();
  in.scale = next.take<const float>();
  in.mean = next.take<const float>();
  in.inverse = next.take<const float>();
  in.addend = fields.addend ? next.take<const T>() : nullptr;
  in.arriving = fields.keepsSum ? next.take<T>() : nullptr;
  in.dx = next.take<T>();
  forRows(fields.rows, fields.size, [&](int64_t blocks, auto threads, auto width, auto held) {
    launch(run, blocks, kBlockThreads,
           rowGradients<decltype(threads)::value, decltype(width)::value, decltype(held)::value, T>,
           fields.rows, fields.size, in);
  });
}

template <class T>
void LayerNormalizationScaleGradient::operator()(const Run &run, const T *dy, const T *x,
                                                 const float *mean, const float *inverse,
                                                 float *dscale, bool add) const {
  sumColumns<1>(run, fields.rows, fields.size,
                ScaleMoments<T, 1>{dy, x, mean, inverse, fields.size}, StoreSums<1>{{dscale}, add});
}

template <class T>
void LayerNormalizationScaleGradient::operator()(const Run &run, const T *dy, const T *x,
                                                 const float *mean, const float *inverse,
                                                 float *dscale, float *dbias, bool add) const {
  sumColumns<2>(run, fields.rows, fields.size,
                ScaleMoments<T, 2>{dy, x, mean, inverse, fields.size},
                StoreSums<2>{{dscale, dbias}, add});
}

#define PDC_LAYER_NORMALIZATION(T)                                                                 \
  template void LayerNormalization::call<T>(const Run &, std::initializer_list<const void *>)      \
      const;                                                                                       \
  template void LayerNormalizationInputGradient::call<T>(                                          \
      const Run &, std::initializer_list<const void *>) const;                                     \
  template void LayerNormalizationScaleGradient::operator()(                                       \
      const Run &, const T *, const T *, const float *, const float *, float *, bool) const;       \
  template void LayerNormalizationScaleGradient::operator()(const Run &, const T *, const T *,     \
                                                            const float *, const float *, float *, \
                                                            float *, bool) const;
PDC_LAYER_NORMALIZATION(float)
PDC_LAYER_NORMALIZATION(BFloat16)
PDC_LAYER_NORMALIZATION(Float16)
#undef PDC_LAYER_NORMALIZATION

} // namespace pdc::runtime::cuda
