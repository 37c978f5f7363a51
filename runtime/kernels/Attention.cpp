#include "runtime/kernels/Attention.h"

#include "runtime/kernels/AttentionGradient.h"
#include "runtime/kernels/DropoutBits.h"
#include "runtime/kernels/Library.h"
#include "runtime/kernels/PackedProduct.h"

#include <algorithm>
#include <array>
#include <limits>
#include <omp.h>
#include <utility>

namespace pdc::runtime {

using packed::kLanes;
using packed::Values;
using packed::Vector;

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Whole vectors that hold as many numbers.
int64_t inVectors(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// The queries of a block: some rows of one head.
struct QueryBlock {
  int64_t b, head, first, rows;
  int64_t end; ///< of the keys that its last row sees
};

/// Calls work(block) for the blocks of a head in ascending order.
template <class Work>
void forEachBlock(const AttentionFields &f, int64_t b, int64_t head, Work work) {
  const int64_t rows = AttentionBlocks::rows(f);
  for (int64_t i = 0; i < f.queries; i += rows) {
    const int64_t count = std::min(rows, f.queries - i);
    work(QueryBlock{b, head, i, count, f.visible(i + count - 1)});
  }
}

/// What is done to one row of scores, in steps of whole vectors.
class ScoreRow {
public:
  ScoreRow(const AttentionFields &f, const QueryBlock &block, int64_t i, float *scores)
      : f(f), b(block.b), head(block.head), query(block.first + i), end(f.visible(query)),
        vectors(inVectors(end)), scores(scores) {}

  /// Adds the mask; what is not seen becomes minus infinity up to the last vector.
  void mask(const void *mask) const {
    if (mask)
      addMask(mask);
    for (int64_t j = end; j < vectors; ++j)
      scores[j] = kNever;
  }
  /// Zeros from the last vector to where the block's rows end.
  void clear(float *row, int64_t blockEnd) const {
    for (int64_t j = vectors; j < blockEnd; ++j)
      row[j] = 0;
  }

  /// Scores become shares; the logarithm of their exponentials' sum.
  float normalise() const {
    Vector most = Values::fill(kNever), total = {};
    for (int64_t j = 0; j < vectors; j += kLanes) {
      const Vector score = Values::load(scores + j);
      most = score > most ? score : most;
    }
    const float shift = packed::largest(most);
    if (shift == kNever && isUnseen()) {
      std::fill_n(scores, vectors, 0.0f);
      return -kNever;
    }
    for (int64_t j = 0; j < vectors; j += kLanes) {
      const Vector power = packed::exponential(Values::load(scores + j) - shift);
      total += power;
      Values::store(scores + j, power);
    }
    const float sum = packed::sum(total), factor = 1 / sum;
    for (int64_t j = 0; j < vectors; j += kLanes)
      Values::store(scores + j, Values::load(scores + j) * factor);
    return shift + std::log(sum);
  }

  /// Shares become those that dropout leaves.
  void drop(const int64_t *random) const {
    Draws(*this, random).each(end, [this](int64_t j, float kept) { scores[j] *= kept; });
  }

  /// Scores become shares by their `logSum`, and `gradients`, those of the shares, the scores'.
  void differentiate(float logSum, float product, float *gradients) const {
    shareBy(logSum);
    for (int64_t j = 0; j < vectors; j += kLanes)
      Values::store(gradients + j,
                    Values::load(scores + j) * (Values::load(gradients + j) - product));
  }
  /// The same where shares are dropped: scores become what dropout leaves of the shares.
  void differentiate(float logSum, float product, float *gradients, const int64_t *random) const {
    shareBy(logSum);
    Draws(*this, random).each(vectors, [=, this](int64_t j, float kept) {
      const float share = scores[j];
      gradients[j] = share * (kept * gradients[j] - product);
      scores[j] = kept * share;
    });
  }

  const AttentionFields &f;
  const int64_t b, head, query, end, vectors;
  float *const scores;

private:
  /// Scores become shares again.
  void shareBy(float logSum) const {
    if (logSum < kCoarseLogSum) {
      normalise();
      return;
    }
    for (int64_t j = 0; j < vectors; j += kLanes)
      Values::store(scores + j, packed::exponential(Values::load(scores + j) - logSum));
  }

  /// And no score is something else, such as no number.
  bool isUnseen() const {
    return std::all_of(scores, scores + vectors, [](float score) { return score == kNever; });
  }

  /// Elements are numbered as those of scores [batch, heads, queries, keys] within their sample.
  struct Draws {
    uint64_t prefix;
    uint32_t threshold;
    int64_t first;
    float factor;

    Draws(const ScoreRow &row, const int64_t *random)
        : threshold(dropoutThreshold(row.f.ratio)),
          factor(static_cast<float>(1 / (1 - row.f.ratio))) {
      const int64_t head = row.b * row.f.heads + row.head, each = row.f.headsOfSample();
      prefix = samplePrefix(random[0], random[1], random[2 + head / each], row.f.key);
      first = (head % each * row.f.queries + row.query) * row.f.keys;
    }
    /// use(j, by what share j is multiplied).
    template <class Use> void each(int64_t shares, Use use) const {
      for (int64_t begin = 0; begin < shares; begin += DropoutBits::kCount) {
        const DropoutBits bits(prefix, first + begin);
        const int64_t count = std::min(DropoutBits::kCount, shares - begin);
#pragma omp simd
        for (int64_t i = 0; i < count; ++i)
          use(begin + i, bits[i] >= threshold ? factor : 0);
      }
    }
  };

  void addMask(const void *mask) const {
    const Dimensions &strides = f.maskStrides;
    const int64_t at = f.maskOf(b) * strides[0] + head * strides[1] + query * strides[2],
                  step = strides[3];
    if (f.boolean) {
      const auto *bytes = static_cast<const uint8_t *>(mask) + at;
      for (int64_t j = 0; j < end; ++j)
        scores[j] = bytes[j * step] ? scores[j] : kNever;
      return;
    }
    const float *added = static_cast<const float *>(mask) + at;
    for (int64_t j = 0; j < end; ++j)
      scores[j] += added[j * step];
  }
};

/// A head's rows of one operand.
template <class T> struct Head {
  T *data;
  int64_t stride;
  Head(const AttentionFields &f, int operand, T *all, int64_t b, int64_t head)
      : data(all ? all + AttentionRows(f, operand).first(b, head) : nullptr),
        stride(AttentionRows(f, operand).stride()) {}
  T *row(int64_t i) const { return data + i * stride; }
  /// As the left operand of a product, or packed as the right one.
  packed::Strided rows(int64_t first = 0) const { return {row(first), stride, 1}; }
  packed::Strided columns() const { return {data, 1, stride}; }
};

/// The parts of a thread's floats, one after the other.
class Floats {
public:
  explicit Floats(float *at) : at(at) {}
  float *take(int64_t count) { return std::exchange(at, at + count); }

private:
  float *at;
};

float *scratchOf(const Run &run, int64_t floats) {
  return reinterpret_cast<float *>(run.scratchBase) + omp_get_thread_num() * floats;
}

/// Keys and values of one head, for those heads of queries that share them.
class Forward {
public:
  Forward(const AttentionFields &f, Floats floats, int64_t b, int64_t keyHead, const float *k,
          const float *v)
      : f(f), scores(floats.take(AttentionBlocks::rows(f) * AttentionBlocks::stride(f))),
        keys(floats.take(AttentionBlocks::padded(f.keys) * f.width)),
        values(floats.take(f.keys * AttentionBlocks::padded(f.valueWidth))) {
    packed::pack(f.width, f.keys, Head(f, 1, k, b, keyHead).columns(), float(f.scale), keys);
    packed::pack(f.keys, f.valueWidth, Head(f, 2, v, b, keyHead).rows(), 1, values);
  }

  void operator()(const QueryBlock &block, const float *q, const void *mask, const int64_t *random,
                  float *y, float *logSums) const {
    const int64_t stride = AttentionBlocks::stride(f), end = block.end;
    packed::multiply(block.rows, inVectors(end), f.width,
                     Head(f, 0, q, block.b, block.head).rows(block.first), keys, f.width, scores,
                     stride, false);
    for (int64_t i = 0; i < block.rows; ++i) {
      const ScoreRow row(f, block, i, scores + i * stride);
      row.mask(mask);
      const float logSum = row.normalise();
      if (random)
        row.drop(random);
      row.clear(row.scores, end);
      if (logSums)
        logSums[(block.b * f.heads + block.head) * f.queries + row.query] = logSum;
    }
    const Head to(f, 3, y, block.b, block.head);
    packed::multiply(block.rows, f.valueWidth, end, {scores, stride, 1}, values, f.keys,
                     to.row(block.first), to.stride, false);
  }

private:
  const AttentionFields &f;
  float *scores, *keys, *values;
};

/// The results of a gradient's call, null where nobody reads them.
struct Gradients {
  float *dq = nullptr, *dk = nullptr, *dv = nullptr, *mask = nullptr;
};

class Backward {
public:
  Backward(const AttentionFields &f, Floats floats, int64_t b, int64_t keyHead,
           const AttentionOperands &in, const Gradients &out)
      : f(f), in(in), out(out), dk(f, 1, out.dk, b, keyHead), dv(f, 2, out.dv, b, keyHead),
        scores(floats.take(AttentionBlocks::rows(f) * AttentionBlocks::stride(f))),
        gradients(floats.take(AttentionBlocks::rows(f) * AttentionBlocks::stride(f))),
        keyColumns(floats.take(AttentionBlocks::padded(f.keys) * f.width)),
        valueColumns(floats.take(AttentionBlocks::padded(f.keys) * f.valueWidth)),
        keyRows(floats.take(f.keys * AttentionBlocks::padded(f.width))),
        queryRows(floats.take(AttentionBlocks::rows(f) * AttentionBlocks::padded(f.width))),
        resultRows(floats.take(AttentionBlocks::rows(f) * AttentionBlocks::padded(f.valueWidth))) {
    const Head k(f, 1, in.k, b, keyHead), v(f, 2, in.v, b, keyHead);
    packed::pack(f.width, f.keys, k.columns(), float(f.scale), keyColumns);
    packed::pack(f.valueWidth, f.keys, v.columns(), 1, valueColumns);
    if (out.dq)
      packed::pack(f.keys, f.width, k.rows(), float(f.scale), keyRows);
    for (int64_t j = 0; j < f.keys; ++j) {
      if (out.dk)
        std::fill_n(dk.row(j), f.width, 0.0f);
      if (out.dv)
        std::fill_n(dv.row(j), f.valueWidth, 0.0f);
    }
  }

  void operator()(const QueryBlock &block) const {
    const int64_t stride = AttentionBlocks::stride(f), end = block.end;
    const Head q(f, 0, in.q, block.b, block.head), dy(f, 3, in.dy, block.b, block.head);
    packed::multiply(block.rows, inVectors(end), f.width, q.rows(block.first), keyColumns, f.width,
                     scores, stride, false);
    packed::multiply(block.rows, inVectors(end), f.valueWidth, dy.rows(block.first), valueColumns,
                     f.valueWidth, gradients, stride, false);
    for (int64_t i = 0; i < block.rows; ++i)
      differentiateRow(block, i);
    if (out.dq) {
      const Head dq(f, 0, out.dq, block.b, block.head);
      packed::multiply(block.rows, f.width, end, {gradients, stride, 1}, keyRows, f.keys,
                       dq.row(block.first), dq.stride, false);
    }
    if (out.dk) {
      packed::pack(block.rows, f.width, q.rows(block.first), float(f.scale), queryRows);
      packed::multiply(end, f.width, block.rows, {gradients, 1, stride}, queryRows, block.rows,
                       dk.data, dk.stride, true);
    }
    if (out.dv) {
      packed::pack(block.rows, f.valueWidth, dy.rows(block.first), 1, resultRows);
      packed::multiply(end, f.valueWidth, block.rows, {scores, 1, stride}, resultRows, block.rows,
                       dv.data, dv.stride, true);
    }
  }

private:
  void differentiateRow(const QueryBlock &block, int64_t i) const {
    const int64_t stride = AttentionBlocks::stride(f);
    const ScoreRow row(f, block, i, scores + i * stride);
    float *gradient = gradients + i * stride;
    const int64_t number = (block.b * f.heads + block.head) * f.queries + row.query;
    const float *y = Head(f, 3, in.y, block.b, block.head).row(row.query);
    const float *dy = Head(f, 3, in.dy, block.b, block.head).row(row.query);
    float product = 0; // of shares and their gradients, summed: as of result and gradient
#pragma omp simd reduction(+ : product)
    for (int64_t d = 0; d < f.valueWidth; ++d)
      product += y[d] * dy[d];
    row.mask(in.mask);
    if (in.random)
      row.differentiate(in.logSums[number], product, gradient, in.random);
    else
      row.differentiate(in.logSums[number], product, gradient);
    row.clear(row.scores, block.end);
    row.clear(gradient, block.end);
    if (!out.mask)
      return;
    const int64_t mask = block.b % f.maskGradients();
    float *sums = out.mask + ((mask * f.heads + block.head) * f.queries + row.query) * f.keys;
    for (int64_t j = 0; j < row.end; ++j)
      sums[j] += gradient[j];
  }

  const AttentionFields &f;
  const AttentionOperands &in;
  const Gradients &out;
  Head<float> dk, dv;
  float *scores, *gradients, *keyColumns, *valueColumns, *keyRows, *queryRows, *resultRows;
};

} // namespace

Attention::Attention(const Device &device, const AttentionFields &f)
    : fields(f), threads(device.threads) {
  requireWorkspace("attention", 4 * threads * AttentionBlocks::forward(f), device);
}

void Attention::operator()(const Run &run, const float *q, const float *k, const float *v,
                           const void *mask, const int64_t *random, float *y,
                           float *logSums) const {
  const AttentionFields &f = fields;
  const int64_t group = f.heads / f.keyHeads;
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
  for (int64_t b = 0; b < f.batch; ++b)
    for (int64_t keyHead = 0; keyHead < f.keyHeads; ++keyHead) {
      const Forward forward(f, Floats(scratchOf(run, AttentionBlocks::forward(f))), b, keyHead, k,
                            v);
      for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
        forEachBlock(f, b, head,
                     [&](const QueryBlock &block) { forward(block, q, mask, random, y, logSums); });
    }
}

AttentionGradient::AttentionGradient(const Device &device, const AttentionFields &f)
    : fields(f), threads(device.threads) {
  requireWorkspace("attention's gradient", 4 * threads * AttentionBlocks::backward(f), device);
}

/// A thread sums a mask's gradient over the samples that have it, in ascending order.
void AttentionGradient::call(const Run &run, const AttentionOperands &in,
                             std::initializer_list<float *> results) const {
  const AttentionFields &f = fields;
  Gradients out;
  for (size_t i = 0; i < results.size(); ++i)
    *std::array{&out.dq, &out.dk, &out.dv, &out.mask}[f.results[i]] = results.begin()[i];
  shareJoined(f, out.dq, out.dk, out.dv);
  const int64_t group = f.heads / f.keyHeads;
  const int64_t apart = out.mask ? f.maskGradients() : f.batch;
  if (out.mask)
    std::fill_n(out.mask, f.maskGradientElements(), 0.0f);
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
  for (int64_t first = 0; first < apart; ++first)
    for (int64_t keyHead = 0; keyHead < f.keyHeads; ++keyHead)
      for (int64_t b = first; b < f.batch; b += apart) {
        const Backward backward(f, Floats(scratchOf(run, AttentionBlocks::backward(f))), b, keyHead,
                                in, out);
        for (int64_t head = keyHead * group; head < (keyHead + 1) * group; ++head)
          forEachBlock(f, b, head, backward);
      }
}

} // namespace pdc::runtime
