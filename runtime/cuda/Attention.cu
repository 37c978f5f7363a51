#include "runtime/cuda/AttentionMasks.h"
#include "runtime/cuda/AttentionPlan.h"
#include "runtime/cuda/AttentionTiles.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"

#include <array>
#include <cmath>
#include <limits>

/// Attention by tiles of queries and keys: no more of the scores is there than a tile of each
/// block. Sums have a fixed order, so the bits are.
namespace pdc::runtime::cuda {

namespace {

/// A product of a query and a key, scaled and masked.
__device__ float scoreOf(const AttentionFields &f, const void *mask, int64_t b, int64_t head,
                         int64_t i, int64_t j, float product) {
  if (i >= f.queries || j >= f.visible(i))
    return -std::numeric_limits<float>::infinity();
  const float score = static_cast<float>(f.scale) * product;
  if (!mask)
    return score;
  const Dimensions &s = f.maskStrides;
  const int64_t at = f.maskOf(b) * s[0] + head * s[1] + i * s[2] + j * s[3];
  if (!f.boolean)
    return score + static_cast<const float *>(mask)[at];
  return static_cast<const uint8_t *>(mask)[at] ? score : -std::numeric_limits<float>::infinity();
}

/// What a block computes: some columns of some of one head's rows.
struct Work {
  int64_t b, head, first, column;
  __device__ Work(int64_t heads, int64_t rows, int64_t width) {
    const int64_t chunks = ceilDivide(width, kTile);
    const int64_t tiles = ceilDivide(rows, kTile), block = blockIdx.x;
    column = block % chunks * kTile, first = block / chunks % tiles * kTile;
    head = block / (chunks * tiles) % heads, b = block / (chunks * tiles * heads);
  }
};

/// How many keys the last query of a tile sees.
__device__ int64_t visibleFrom(const AttentionFields &f, int64_t firstQuery) {
  const int64_t last = firstQuery + kTile - 1;
  return f.visible(last < f.queries ? last : f.queries - 1);
}

/// One row of scores as it grows: the largest, and the sum of exponentials relative to it.
struct Growing {
  float most = -std::numeric_limits<float>::infinity(), sum = 0;

  /// This thread's scores become exponentials; by how much those before shrink.
  __device__ float add(float (&scores)[kOwn]) {
    const float before = most;
    forOwn([&](int c) { most = scores[c] > most ? scores[c] : most; });
    most = mostOfRow(most);
    const float factor = before == most ? 1 : expf(before - most);
    float added = 0;
    forOwn([&](int c) {
      float &score = scores[c];
      score = score == -std::numeric_limits<float>::infinity() ? 0 : expf(score - most);
      added += score;
    });
    sum = sum * factor + sumRow(added);
    return factor;
  }
};

template <class T>
__global__ void attentionRows(AttentionFields f, const T *q, const T *k, const T *v,
                              const void *mask, const int64_t *random, T *y, float *logSums) {
  __shared__ Tiles tiles;
  const Work work(f.heads, f.queries, f.valueWidth);
  const int64_t b = work.b, head = work.head, keyHead = head * f.keyHeads / f.heads;
  const Rows<T> queries(f, 0, q, b, head), keys(f, 1, k, b, keyHead), values(f, 2, v, b, keyHead);
  const KeptShares kept(f, random, b, head);
  Growing rows[kOwn];
  Own results = {}, scores;
  for (int64_t first = 0; first < visibleFrom(f, work.first); first += kTile) {
    multiplyRows(queries, work.first, keys, first, tiles, scores);
    forOwn([&](int r) {
      const int64_t i = work.first + ownRow(r);
      forOwn([&](int c) {
        scores[r][c] = scoreOf(f, mask, b, head, i, first + ownColumn(c), scores[r][c]);
      });
      const float factor = rows[r].add(scores[r]);
      forOwn([&](int c) {
        results[r][c] *= factor;
        tiles.scores[ownRow(r)][ownColumn(c)] =
            scores[r][c] * kept.factorOf(i, first + ownColumn(c));
      });
    });
    addProduct(values, first, work.column, false, tiles, results);
  }
  forOwn([&](int r) {
    const int64_t i = work.first + ownRow(r);
    const bool isSeen = rows[r].sum != 0; // where it is no number, too
    forOwn([&](int c) { results[r][c] = isSeen ? results[r][c] / rows[r].sum : 0; });
    if (logSums && work.column == 0 && ownColumn(0) == 0 && i < f.queries)
      logSums[(b * f.heads + head) * f.queries + i] =
          isSeen ? rows[r].most + logf(rows[r].sum) : std::numeric_limits<float>::infinity();
  });
  store(f, 3, b, head, work.first, work.column, 1, results, y);
}

template <class T> struct Operands {
  const T *dy, *q, *k, *v, *y;
  const float *logSums;
  const void *mask;
  const int64_t *random;
};

/// Shares and the gradients of scores of one head, tile by tile. `begin` with its queries.
template <class T> struct Recomputed {
  const AttentionFields &f;
  const Operands<T> &in;
  const int64_t b, head;
  const Rows<T> queries, keys, values, results, gradients;
  const KeptShares kept;
  float factors[kOwn]; ///< of the exponentials of this thread's rows

  __device__ Recomputed(const AttentionFields &f, const Operands<T> &in, int64_t b, int64_t head)
      : f(f), in(in), b(b), head(head), queries(f, 0, in.q, b, head),
        keys(f, 1, in.k, b, head * f.keyHeads / f.heads),
        values(f, 2, in.v, b, head * f.keyHeads / f.heads), results(f, 3, in.y, b, head),
        gradients(f, 3, in.dy, b, head), kept(f, in.random, b, head) {}

  /// What the shares of row i times their gradients sum up to.
  __device__ float product(int64_t i) const {
    float sum = 0;
    for (int64_t d = ownColumn(0); d < f.valueWidth; d += kSide)
      sum += results.at(i, d) * gradients.at(i, d);
    return sumRow(sum);
  }

  /// Where a finite number hides all keys of a row, the exponentials add up to more than 1.
  __device__ void begin(int64_t firstQuery, Tiles &tiles) {
    bool isCoarse = false;
    forOwn([&](int r) {
      factors[r] = 1;
      isCoarse |= logSum(firstQuery + ownRow(r)) < kCoarseLogSum;
    });
    if (!__syncthreads_or(isCoarse))
      return;
    Own scores;
    float sums[kOwn] = {};
    for (int64_t first = 0; first < visibleFrom(f, firstQuery); first += kTile) {
      multiplyRows(queries, firstQuery, keys, first, tiles, scores);
      forOwn([&](int r) {
        forOwn([&](int c) {
          sums[r] += exponential(firstQuery + ownRow(r), first + ownColumn(c), scores[r][c]);
        });
      });
    }
    forOwn([&](int r) {
      const float sum = sumRow(sums[r]);
      if (logSum(firstQuery + ownRow(r)) < kCoarseLogSum)
        factors[r] = 1 / sum;
    });
  }

  /// Into tiles.scores: the gradients of scores, or the shares that dropout leaves.
  __device__ void fill(int64_t firstQuery, int64_t firstKey, bool isGradient, Tiles &tiles) const {
    Own scores, shares;
    multiplyRows(queries, firstQuery, keys, firstKey, tiles, scores);
    multiplyRows(gradients, firstQuery, values, firstKey, tiles, shares);
    forOwn([&](int r) {
      const int64_t i = firstQuery + ownRow(r);
      const float sum = product(i);
      forOwn([&](int c) {
        const int64_t j = firstKey + ownColumn(c);
        const float share = factors[r] * exponential(i, j, scores[r][c]);
        const float left = kept.factorOf(i, j);
        tiles.scores[ownRow(r)][ownColumn(c)] =
            isGradient ? share * (left * shares[r][c] - sum) : left * share;
      });
    });
  }

  __device__ float exponential(int64_t i, int64_t j, float product) const {
    const float score = scoreOf(f, in.mask, b, head, i, j, product);
    return score == -std::numeric_limits<float>::infinity() ? 0 : expf(score - logSum(i));
  }

  __device__ float logSum(int64_t i) const {
    return i < f.queries ? in.logSums[(b * f.heads + head) * f.queries + i] : 0;
  }
};

template <class T> __global__ void queryGradients(AttentionFields f, Operands<T> in, T *dq) {
  __shared__ Tiles tiles;
  const Work work(f.heads, f.queries, f.width);
  Recomputed<T> scores(f, in, work.b, work.head);
  scores.begin(work.first, tiles);
  Own sums = {};
  for (int64_t first = 0; first < visibleFrom(f, work.first); first += kTile) {
    scores.fill(work.first, first, true, tiles);
    addProduct(scores.keys, first, work.column, false, tiles, sums);
  }
  store(f, 0, work.b, work.head, work.first, work.column, static_cast<float>(f.scale), sums, dq);
}

/// Of keys (`IsKey`) or values: over the heads and the queries that read them, in ascending order.
template <bool IsKey, class T>
__global__ void keyGradients(AttentionFields f, Operands<T> in, T *gradient) {
  __shared__ Tiles tiles;
  const int64_t group = f.heads / f.keyHeads;
  const Work work(f.keyHeads, f.keys, IsKey ? f.width : f.valueWidth);
  Own sums = {};
  for (int64_t head = work.head * group; head < (work.head + 1) * group; ++head) {
    Recomputed<T> scores(f, in, work.b, head);
    for (int64_t first = 0; first < f.queries; first += kTile) {
      if (visibleFrom(f, first) <= work.first)
        continue;
      scores.begin(first, tiles);
      scores.fill(first, work.first, IsKey, tiles);
      addProduct(IsKey ? scores.queries : scores.gradients, first, work.column, true, tiles, sums);
    }
  }
  store(f, IsKey ? 1 : 2, work.b, work.head, work.first, work.column,
        IsKey ? static_cast<float>(f.scale) : 1, sums, gradient);
}

/// A tile of queries and keys of a mask's gradient, which every `apart`-th sample shares.
template <class T>
__global__ void maskGradients(AttentionFields f, Operands<T> in, int64_t apart, float *gradient) {
  __shared__ Tiles tiles;
  const Work work(f.heads, f.queries, f.keys);
  Own sums = {};
  const int64_t end = visibleFrom(f, work.first) > work.column ? f.batch : 0;
  for (int64_t b = work.b; b < end; b += apart) {
    Recomputed<T> scores(f, in, b, work.head);
    scores.begin(work.first, tiles);
    scores.fill(work.first, work.column, true, tiles);
    // What this thread has filled.
    forOwn([&](int r) {
      forOwn([&](int c) { sums[r][c] += tiles.scores[ownRow(r)][ownColumn(c)]; });
    });
  }
  forOwn([&](int r) {
    forOwn([&](int c) {
      const int64_t i = work.first + ownRow(r), j = work.column + ownColumn(c);
      if (i < f.queries && j < f.keys)
        gradient[((work.b * f.heads + work.head) * f.queries + i) * f.keys + j] = sums[r][c];
    });
  });
}

} // namespace

Attention::Attention(const Device &device, const AttentionFields &fields)
    : fields(fields), plan(sharedPlan(device, fields,
                                      fields.results.size() == 2 || fields.guarded
                                          ? AttentionPlan::Use::resultsAndSums
                                          : AttentionPlan::Use::results)) {}

AttentionGradient::AttentionGradient(const Device &device, const AttentionFields &fields)
    : fields(fields), plan(sharedPlan(device, fields, AttentionPlan::Use::gradients)) {}

template <class T>
void Attention::operator()(const Run &run, const T *q, const T *k, const T *v, const void *mask,
                           const int64_t *random, T *y, float *logSums) const {
  if (plan) {
    float *sums = logSums ? logSums : plan->sumsPlace(run);
    plan->results(run, q, k, v, maskFor(run, fields, *plan, mask), y, sums,
                  keptFor<T>(run, fields, *plan, random));
    if (fields.guarded)
      clearUnseen(run, fields, y, sums);
    return;
  }
  const AttentionFields &f = fields;
  launch(run, f.batch * f.heads * ceilDivide(f.queries, kTile) * ceilDivide(f.valueWidth, kTile),
         kBlockThreads, attentionRows<T>, f, q, k, v, mask, random, y, logSums);
}

template <class T>
void AttentionGradient::call(const Run &run, std::array<const T *, 5> operands,
                             const float *logSums, const void *mask, const int64_t *random,
                             std::initializer_list<void *> results) const {
  const AttentionFields &f = fields;
  const auto [dy, q, k, v, y] = operands;
  std::array<void *, 4> out = {};
  for (size_t i = 0; i < results.size(); ++i)
    out[f.results[i]] = results.begin()[i];
  shareJoined(f, out[0], out[1], out[2]);
  if (plan)
    return plan->gradients(run, {dy, q, k, v, y}, logSums, maskFor(run, fields, *plan, mask),
                           {out[0], out[1], out[2]}, keptFor<T>(run, fields, *plan, random),
                           maskGradientTo<T>(run, fields, *plan, static_cast<float *>(out[3])));
  const Operands<T> in{dy, q, k, v, y, logSums, mask, random};
  const int64_t keyTiles = f.batch * f.keyHeads * ceilDivide(f.keys, kTile);
  if (out[0])
    launch(run, f.batch * f.heads * ceilDivide(f.queries, kTile) * ceilDivide(f.width, kTile),
           kBlockThreads, queryGradients<T>, f, in, static_cast<T *>(out[0]));
  if (out[1])
    launch(run, keyTiles * ceilDivide(f.width, kTile), kBlockThreads, keyGradients<true, T>, f, in,
           static_cast<T *>(out[1]));
  if (out[2])
    launch(run, keyTiles * ceilDivide(f.valueWidth, kTile), kBlockThreads, keyGradients<false, T>,
           f, in, static_cast<T *>(out[2]));
  if (!out[3])
    return;
  const int64_t apart = f.maskGradients();
  launch(run, apart * f.heads * ceilDivide(f.queries, kTile) * ceilDivide(f.keys, kTile),
         kBlockThreads, maskGradients<T>, f, in, apart, static_cast<float *>(out[3]));
}

#define PDC_ATTENTION(T)                                                                           \
  template void Attention::operator()(const Run &, const T *, const T *, const T *, const void *,  \
                                      const int64_t *, T *, float *) const;                        \
  template void AttentionGradient::call(const Run &, std::array<const T *, 5>, const float *,      \
                                        const void *, const int64_t *,                             \
                                        std::initializer_list<void *>) const;
PDC_ATTENTION(float)
PDC_ATTENTION(BFloat16)
PDC_ATTENTION(Float16)
#undef PDC_ATTENTION

} // namespace pdc::runtime::cuda
