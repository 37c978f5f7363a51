#include "runtime/cuda/MatrixBatches.h"

#include "runtime/cuda/Workspace.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace pdc::runtime::cuda {

namespace {

struct Dimension {
  int64_t size, a, b, y;
};

int64_t pitch(int64_t given, const Dimensions &shape) { return given ? given : shape.back(); }

/// Leading dimensions from the outermost, without those of size one; neighbours that follow each
/// other in all three tensors are one.
std::vector<Dimension> leadingDimensions(const MatrixProductFields &f) {
  const size_t rank = f.output.size(), leading = rank - 2;
  auto sizeOf = [&](const Dimensions &shape, size_t d) {
    return d + shape.size() < rank ? int64_t(1) : shape[d + shape.size() - rank];
  };
  std::vector<Dimension> all(leading);
  int64_t a = f.a[f.a.size() - 2] * pitch(f.pitchA, f.a);
  int64_t b = f.b[f.b.size() - 2] * pitch(f.pitchB, f.b);
  int64_t y = f.output[rank - 2] * pitch(f.pitchY, f.output);
  for (size_t d = leading; d-- > 0;) {
    all[d] = {f.output[d], sizeOf(f.a, d) == 1 ? 0 : a, sizeOf(f.b, d) == 1 ? 0 : b, y};
    a *= sizeOf(f.a, d);
    b *= sizeOf(f.b, d);
    y *= f.output[d];
  }
  std::vector<Dimension> merged;
  for (const Dimension &next : all) {
    if (next.size == 1)
      continue;
    Dimension *last = merged.empty() ? nullptr : &merged.back();
    if (last && last->a == next.a * next.size && last->b == next.b * next.size &&
        last->y == next.y * next.size)
      *last = {last->size * next.size, next.a, next.b, next.y};
    else
      merged.push_back(next);
  }
  return merged;
}

} // namespace

MatrixBatches::MatrixBatches(const MatrixProductFields &f)
    : rows(f.output[f.output.size() - 2]), columns(f.output.back()),
      inner(f.transA ? f.a[f.a.size() - 2] : f.a.back()), pitchA(pitch(f.pitchA, f.a)),
      pitchB(pitch(f.pitchB, f.b)), pitchY(pitch(f.pitchY, f.output)), starts({{0, 0, 0}}) {
  std::vector<Dimension> dimensions = leadingDimensions(f);
  // 1. Products by one and the same b whose rows follow each other are one tall product.
  if (!dimensions.empty() && !f.transA && dimensions.back().b == 0 &&
      dimensions.back().a == rows * pitchA) {
    rows *= dimensions.back().size;
    dimensions.pop_back();
  }
  // 2. The largest dimension, of equal ones the innermost, is the library's batch, or as much of it
  // as that takes.
  std::ranges::reverse_view inward(dimensions);
  if (auto batch = std::ranges::max_element(inward, {}, &Dimension::size); batch != inward.end()) {
    count = largestBatch(batch->size);
    strideA = batch->a, strideB = batch->b, strideY = batch->y;
    *batch = {batch->size / count, count * strideA, count * strideB, count * strideY};
  }
  // 3. The others are walked.
  for (const Dimension &d : dimensions) {
    std::vector<Start> before;
    std::swap(before, starts);
    for (const Start &start : before)
      for (int64_t i = 0; i < d.size; ++i)
        starts.push_back({start.a + i * d.a, start.b + i * d.b, start.y + i * d.y});
  }
}

} // namespace pdc::runtime::cuda
