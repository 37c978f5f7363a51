#include "runtime/Error.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Team.h"

#include <cmath>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace pdc::runtime::cuda {

namespace {

/// How a team of threads walks along a row: each thread has every `Threads`th chunk of `Width`
/// elements, of which there are `Held` at most, or any number where Held is 0.
template <int Threads, int Width, int Held> struct RowWalk {
  using Chunk = Lanes<float, Width>;
  using Row = Team<Threads>;
  static constexpr int kWidth = Width, kHeld = Held;
  int64_t size;

  __device__ static int64_t firstOf(int j) { return (Row::thread() + j * Threads) * Width; }
  /// use(number of the thread's chunk, its first element).
  template <class Use> __device__ void each(Use use) const {
    if constexpr (Held > 0) {
      PDC_UNROLL
      for (int j = 0; j < Held; ++j)
        if (const int64_t k = firstOf(j); k < size)
          use(j, k);
    } else {
      for (int64_t k = Row::thread() * Width; k < size; k += Threads * Width)
        use(0, k);
    }
  }
};

/// A row that is the sum of those of some tensors, as it would be stored: what is made of a sum
/// does not depend on where it is added up. Those that are there come first; of none there is no
/// row.
template <class T, int Most> struct SummedRow {
  const T *terms[Most];

  __device__ SummedRow behind(int64_t elements) const {
    SummedRow row = {};
    for (int t = 0; t < Most; ++t)
      row.terms[t] = terms[t] ? terms[t] + elements : nullptr;
    return row;
  }
  template <int Width> __device__ Lanes<float, Width> at(int64_t k) const {
    Lanes<float, Width> value = load<Width>(terms[0] + k);
    if constexpr (Most > 1)
      if (terms[1]) {
        PDC_UNROLL
        for (int t = 1; t < Most; ++t)
          if (terms[t])
            value = value + load<Width>(terms[t] + k);
        value = widened(packed<T>(value));
      }
    return value;
  }
};

/// What a thread has of a row that it uses more than once: held in registers, or read each time.
template <class Walk, class T, int Most = 1> class HeldRow {
public:
  __device__ HeldRow(const Walk &walk, const SummedRow<T, Most> &row) : row(row) {
    if constexpr (Walk::kHeld > 0)
      hold(walk);
  }
  __device__ typename Walk::Chunk operator()(int j, int64_t k) const {
    if constexpr (Walk::kHeld > 0)
      return widened(held[j]);
    else
      return row.template at<Walk::kWidth>(k);
  }
  /// What is read each time is there from now on, and may have taken a term's place.
  __device__ void liesAt(const T *sum) { row = {{sum}}; }

private:
  using Stored = Packed<T, Walk::kWidth>;

  /// All chunks of a term are under way before one is used, of the first two terms together: a
  /// branch or arithmetic between them would let each wait for the one before.
  __device__ void hold(const Walk &walk) {
    if (row.terms[0])
      fetchTerm(walk, 0, held);
    if constexpr (Most > 1)
      if (row.terms[1])
        addTerms(walk);
  }
  __device__ void addTerms(const Walk &walk) {
    Stored term[Walk::kHeld];
    typename Walk::Chunk sums[Walk::kHeld];
    fetchTerm(walk, 1, term);
    PDC_UNROLL
    for (int j = 0; j < Walk::kHeld; ++j)
      sums[j] = widened(held[j]) + widened(term[j]);
    PDC_UNROLL
    for (int t = 2; t < Most; ++t)
      if (row.terms[t]) {
        fetchTerm(walk, t, term);
        PDC_UNROLL
        for (int j = 0; j < Walk::kHeld; ++j)
          sums[j] = sums[j] + widened(term[j]);
      }
    PDC_UNROLL
    for (int j = 0; j < Walk::kHeld; ++j)
      held[j] = packed<T>(sums[j]);
  }
  __device__ void fetchTerm(const Walk &walk, int t, Stored (&to)[Walk::kHeld]) const {
    PDC_UNROLL
    for (int j = 0; j < Walk::kHeld; ++j) {
      const int64_t k = Walk::firstOf(j);
      to[j] = fetch<Walk::kWidth>(row.terms[t] + (k < walk.size ? k : 0));
    }
  }

  SummedRow<T, Most> row;
  Stored held[Walk::kHeld > 0 ? Walk::kHeld : 1];
};

template <class T> struct NormalisedRows {
  SummedRow<T, 2> x;
  const float *scale, *bias;
  T *sum, *y; ///< the former null where nobody wants it
  float *mean, *inverse;
};

/// A team per row: the mean first, then the squared deviations from it.
template <int Threads, int Width, int Held, class T>
__global__ void normaliseRows(LayerNormalizationFields f, NormalisedRows<T> in) {
  using Walk = RowWalk<Threads, Width, Held>;
  using Chunk = typename Walk::Chunk;
  const int64_t row = Walk::Row::index(), size = f.size, first = row * size;
  if (row >= f.rows)
    return;
  T *const kept = in.sum ? in.sum + first : nullptr;
  const Walk walk{size};
  HeldRow<Walk, T, 2> rowOf(walk, in.x.behind(first));
  float total = 0, squares = 0;
  walk.each([&](int j, int64_t k) {
    const Chunk value = rowOf(j, k);
    if (kept)
      store(kept + k, value);
    for (int lane = 0; lane < Width; ++lane)
      total += value.at[lane];
  });
  if (kept)
    rowOf.liesAt(kept);
  total = Walk::Row::sum(total);
  const float center = f.centred ? total / static_cast<float>(size) : 0;
  walk.each([&](int j, int64_t k) {
    const Chunk value = rowOf(j, k);
    for (int lane = 0; lane < Width; ++lane)
      squares += (value.at[lane] - center) * (value.at[lane] - center);
  });
  const double variance = Walk::Row::sum(squares) / static_cast<double>(size);
  const float factor = static_cast<float>(1 / sqrt(variance + f.epsilon));
  const HeldRow<Walk, float> scaleOf(walk, {{in.scale}});
  walk.each([&](int j, int64_t k) {
    Chunk value = rowOf(j, k);
    const Chunk scale = scaleOf(j, k), bias = in.bias ? load<Width>(in.bias + k) : Chunk{};
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - center) * factor * scale.at[lane] + bias.at[lane];
    store(in.y + first + k, value);
  });
  if (in.mean && Walk::Row::thread() == 0)
    in.mean[row] = center;
  if (in.inverse && Walk::Row::thread() == 0)
    in.inverse[row] = factor;
}

constexpr int kMostTerms = LayerNormalizationFields::kMostTerms;

template <class T> struct RowGradients {
  SummedRow<T, kMostTerms> dy;
  const T *x;
  const float *scale, *mean, *inverse;
  const T *addend;  ///< to the gradient; may be null
  T *arriving, *dx; ///< the former null where nobody wants the sum of what arrives
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
  T *const arriving = in.arriving ? in.arriving + first : nullptr;
  const Walk walk{size};
  const HeldRow<Walk, T> rowOf(walk, {{in.x + first}});
  HeldRow<Walk, T, kMostTerms> gradientOf(walk, in.dy.behind(first));
  const HeldRow<Walk, T> addendOf(walk, {{in.addend ? in.addend + first : nullptr}});
  const float center = in.mean ? in.mean[row] : 0, factor = in.inverse[row];
  auto normalised = [&](int j, int64_t k) {
    Chunk value = rowOf(j, k);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - center) * factor;
    return value;
  };
  float sum = 0, product = 0;
  {
    const HeldRow<Walk, float> scaleOf(walk, {{in.scale}});
    walk.each([&](int j, int64_t k) {
      const Chunk g = gradientOf(j, k), h = normalised(j, k), scale = scaleOf(j, k);
      if (arriving)
        store(arriving + k, g);
      for (int lane = 0; lane < Width; ++lane) {
        const float scaled = g.at[lane] * scale.at[lane];
        sum += scaled, product += scaled * h.at[lane];
      }
    });
  }
  if (arriving)
    gradientOf.liesAt(arriving);
  sum = Walk::Row::sum(sum);
  sum = in.mean ? sum / static_cast<float>(size) : 0;
  product = Walk::Row::sum(product) / static_cast<float>(size);
  const HeldRow<Walk, float> scaleOf(walk, {{in.scale}});
  walk.each([&](int j, int64_t k) {
    const Chunk g = gradientOf(j, k), h = normalised(j, k), scale = scaleOf(j, k);
    Chunk dx;
    for (int lane = 0; lane < Width; ++lane)
      dx.at[lane] = factor * (g.at[lane] * scale.at[lane] - sum - h.at[lane] * product);
    if (in.addend)
      dx = widened(packed<T>(dx)) + addendOf(j, k);
    store(in.dx + first + k, dx);
  });
}

/// start(Threads, Width, Held, as types) for the team of a row: rows of up to eight chunks of four
/// for each thread are held. Each size has a kernel, since a chunk that is not there would be
/// fetched all the same, and its registers would keep other rows from the processor.
template <class Start> void forRows(int64_t rows, int64_t size, Start start) {
  const TeamShape teams = TeamShape::of(rows, size);
  auto with = [&](auto threads) {
    const int64_t chunks = ceilDivide(size, int64_t(threads) * kLanes);
    auto by = [&]<int Width, int Held>(std::integer_sequence<int, Width, Held>) {
      start(teams.blocks, threads, std::integral_constant<int, Width>(),
            std::integral_constant<int, Held>());
    };
    if (size % kLanes != 0)
      by(std::integer_sequence<int, 1, 0>());
    else if (chunks <= 2)
      by(std::integer_sequence<int, kLanes, 2>());
    else if (chunks <= 4)
      by(std::integer_sequence<int, kLanes, 4>());
    else if (chunks <= 8)
      by(std::integer_sequence<int, kLanes, 8>());
    else
      by(std::integer_sequence<int, kLanes, 0>());
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
  template <int Width> struct Fetched {
    Packed<T, Width> dy, x;
    float center, factor;
  };
  template <int Width> __device__ Fetched<Width> fetched(int64_t row, int64_t k) const {
    const int64_t i = row * size + k;
    return {fetch<Width>(dy + i), fetch<Width>(x + i), mean ? mean[row] : 0, inverse[row]};
  }
  template <int Width, class None>
  __device__ Sums<Count, Width> of(const Fetched<Width> &row, None) const {
    const auto gradient = widened(row.dy), value = widened(row.x);
    Sums<Count, Width> sums = {{gradient}};
    for (int lane = 0; lane < Width; ++lane)
      sums.at[0].at[lane] *= (value.at[lane] - row.center) * row.factor;
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
  in.x.terms[0] = next.take<const T>();
  in.x.terms[1] = fields.addend ? next.take<const T>() : nullptr;
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
    in.dy.terms[term] = next.take<const T>();
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
