#include "runtime/Error.h"
#include "runtime/kernels/Broadcast.h"
#include "runtime/kernels/Concat.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/Indices.h"
#include "runtime/kernels/ReduceSum.h"
#include "runtime/kernels/StridedCopy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

namespace pdc::runtime {

/// The innermost dimension is a loop of its own; the others are walked.
static int64_t splitInner(std::vector<int64_t> &shape, std::vector<int64_t> &a,
                          std::vector<int64_t> &b, int64_t &stepA, int64_t &stepB) {
  if (shape.empty()) {
    stepA = stepB = 0;
    return 1;
  }
  int64_t inner = shape.back();
  stepA = a.back(), stepB = b.back();
  shape.pop_back(), a.pop_back(), b.pop_back();
  return inner;
}

Broadcast::Broadcast(const Device &device, const BroadcastFields &f)
    : fields(f), threads(device.threads) {}

template <class Operation>
static void broadcast(const BroadcastFields &f, int threads, const float *a, const float *b,
                      float *y, Operation operation) {
  std::vector<int64_t> shape = f.shape, stridesA = f.stridesA, stridesB = f.stridesB;
  int64_t stepA, stepB, inner = splitInner(shape, stridesA, stridesB, stepA, stepB);
  auto row = [&](int64_t offsetA, int64_t offsetB, int64_t position) {
    const float *fromA = a + offsetA, *fromB = b + offsetB;
    float *to = y + position * inner;
    if (stepA == 1 && stepB == 1) {
#pragma omp simd
      for (int64_t i = 0; i < inner; ++i)
        to[i] = operation(fromA[i], fromB[i]);
    } else {
      for (int64_t i = 0; i < inner; ++i)
        to[i] = operation(fromA[i * stepA], fromB[i * stepB]);
    }
  };
  forEachIndexInParallel(shape, stridesA, stridesB, threads, countOf(f.shape), row);
}

void Broadcast::operator()(const Run &, const float *a, const float *b, float *y) {
  const float numberA = static_cast<float>(fields.valueA);
  const float numberB = static_cast<float>(fields.valueB);
  a = a ? a : &numberA;
  b = b ? b : &numberB;
  std::string_view name = fields.operation;
  if (name == "Add")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return u + v; });
  else if (name == "Sub")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return u - v; });
  else if (name == "Mul")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return u * v; });
  else if (name == "Div")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return u / v; });
  else if (name == "Max")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return std::max(u, v); });
  else if (name == "Min")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return std::min(u, v); });
  else if (name == "Pow")
    broadcast(fields, threads, a, b, y, [](float u, float v) { return std::pow(u, v); });
  else
    throw Error("no broadcasting kernel for operation '", name, "'");
}

StridedCopy::StridedCopy(const Device &device, const StridedCopyFields &f)
    : fields(f), threads(device.threads) {}

void StridedCopy::operator()(const Run &, const float *x, float *y) {
  const float fill = static_cast<float>(fields.fill);
#pragma omp parallel for simd num_threads(threads) if (parallel                                    \
                                                       : fields.outputElements >=                  \
                                                             kParallelElements)
  for (int64_t i = 0; i < fields.outputElements; ++i)
    y[i] = fill;
  std::vector<int64_t> shape = fields.shape, from = fields.inputStrides, to = fields.outputStrides;
  int64_t stepFrom, stepTo, inner = splitInner(shape, from, to, stepFrom, stepTo);
  auto row = [&](int64_t offsetFrom, int64_t offsetTo, int64_t) {
    const float *source = x + fields.inputOffset + offsetFrom;
    float *target = y + fields.outputOffset + offsetTo;
    if (stepFrom == 1 && stepTo == 1) {
      std::copy_n(source, inner, target);
      return;
    }
    for (int64_t i = 0; i < inner; ++i)
      target[i * stepTo] = source[i * stepFrom];
  };
  forEachIndexInParallel(shape, from, to, threads, countOf(fields.shape), row);
}

void Concat::call(std::vector<const void *> pointers) const {
  if (pointers.size() != fields.blockBytes.size() + 1)
    throw Error("concat: called with ", pointers.size(), " tensors, expected ",
                fields.blockBytes.size() + 1);
  auto *to = static_cast<std::byte *>(const_cast<void *>(pointers.back()));
  for (int64_t o = 0; o < fields.outer; ++o)
    for (size_t i = 0; i < fields.blockBytes.size(); ++i) {
      int64_t bytes = fields.blockBytes[i];
      std::memcpy(to, static_cast<const std::byte *>(pointers[i]) + o * bytes, bytes);
      to += bytes;
    }
}

template <class Index>
static int64_t rowOf(const GatherFields &f, const Index *indices, int64_t k) {
  int64_t index = static_cast<int64_t>(indices[k]);
  if (index < -f.size || index >= f.size)
    throw Error("gather: index ", index, " is outside a dimension of ", f.size);
  return index < 0 ? index + f.size : index;
}

template <class Index>
static void gather(const GatherFields &f, const float *x, const Index *indices, float *y) {
  for (int64_t o = 0; o < f.outer; ++o)
    for (int64_t k = 0; k < f.count; ++k, y += f.inner)
      std::copy_n(x + (o * f.size + rowOf(f, indices, k)) * f.inner, f.inner, y);
}

template <class Index>
static void scatter(const GatherFields &f, const Index *indices, const float *dy, float *dx,
                    bool add) {
  if (!add)
    std::fill_n(dx, f.outer * f.size * f.inner, 0.0f);
  for (int64_t o = 0; o < f.outer; ++o)
    for (int64_t k = 0; k < f.count; ++k, dy += f.inner) {
      float *to = dx + (o * f.size + rowOf(f, indices, k)) * f.inner;
#pragma omp simd
      for (int64_t i = 0; i < f.inner; ++i)
        to[i] += dy[i];
    }
}

void Gather::operator()(const Run &, const float *x, const int64_t *indices, float *y) const {
  gather(fields, x, indices, y);
}
void Gather::operator()(const Run &, const float *x, const int32_t *indices, float *y) const {
  gather(fields, x, indices, y);
}
void GatherGradient::operator()(const Run &, const int64_t *indices, const float *dy, float *dx,
                                bool add) const {
  scatter(fields, indices, dy, dx, add);
}
void GatherGradient::operator()(const Run &, const int32_t *indices, const float *dy, float *dx,
                                bool add) const {
  scatter(fields, indices, dy, dx, add);
}

/// A sum is cut into parts of this many elements, whatever the threads, so that bits do not depend
/// on them.
static constexpr int64_t kPartElements = 1 << 14;

ReduceSum::ReduceSum(const Device &device, const ReduceSumFields &f)
    : fields(f), sums(countOf(f.keptShape)),
      parts((countOf(f.sumShape) + kPartElements - 1) / kPartElements), threads(device.threads),
      partial(sums * parts), starts(sums) {
  const std::vector<int64_t> none(f.keptShape.size(), 0);
  forEachIndex(f.keptShape, f.keptStrides, none, 0, sums,
               [&](int64_t start, int64_t, int64_t position) { starts[position] = start; });
}

void ReduceSum::operator()(const Run &, const float *x, float *y, bool add) {
  const std::vector<int64_t> none(fields.sumShape.size(), 0);
  const int64_t elements = countOf(fields.sumShape);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (sums * elements >= kParallelElements)
  for (int64_t i = 0; i < sums * parts; ++i) {
    const int64_t begin = i % parts * kPartElements;
    const float *from = x + starts[i / parts];
    double sum = 0;
    forEachIndex(fields.sumShape, fields.sumStrides, none, begin,
                 std::min(begin + kPartElements, elements),
                 [&](int64_t offset, int64_t, int64_t) { sum += from[offset]; });
    partial[i] = sum;
  }
  for (int64_t k = 0; k < sums; ++k) {
    double sum = 0;
    for (int64_t i = k * parts; i < (k + 1) * parts; ++i)
      sum += partial[i];
    float value = static_cast<float>(sum * fields.scale);
    y[k] = add ? y[k] + value : value;
  }
}

} // namespace pdc::runtime
