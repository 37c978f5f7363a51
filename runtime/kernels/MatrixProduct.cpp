#include "runtime/kernels/MatrixProduct.h"

#include "runtime/ShapeText.h"
#include "runtime/kernels/MatrixProductDescription.h"
#include "runtime/kernels/PackedProduct.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pdc::runtime {

/// From one element of a row-major tensor to the next along each dimension; 0 where it has one.
static Dimensions stridesOver(const Dimensions &shape) {
  Dimensions strides = shape;
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d])
    strides[d] = shape[d] == 1 ? 0 : step;
  return strides;
}

static std::string unitText(const MatrixProductFields &f) {
  return std::string(f.name) + " (" + shapeText(f.a) + ", " + shapeText(f.b) + ", " +
         shapeText(f.output) + ")";
}

static LibraryCall makeCall(const std::string &unit, const Device &device,
                            const MatrixProductGeometry &g, bool add) {
  LibraryCall call = makeLibraryCall<dnnl::matmul>(unit, device, Fallback::gemm,
                                                   [&] { return describeMatrixProduct(g, add); });
  call.addMemory(DNNL_ARG_SRC, g.a);
  call.addMemory(DNNL_ARG_WEIGHTS, g.b);
  if (!g.product.bias.empty())
    call.addMemory(biasArgument(g), g.bias);
  call.addMemory(DNNL_ARG_DST, g.y);
  return call;
}

static MatrixProductGeometry geometryOf(const Device &device, const MatrixProductFields &given) {
  ThreadScope threads(device);
  return {given, packed::kLanes};
}

MatrixProduct::MatrixProduct(const Device &device, const MatrixProductFields &given)
    : hasBias(!given.bias.empty()), hasRelu(given.relu != 0), output(given.output),
      threads(device.threads) {
  const std::string unit = unitText(given);
  requireSinglePrecision(unit, given.compute);
  const MatrixProductGeometry g = geometryOf(device, given);
  swapsFactors = g.swapsFactors;
  hasOwnBias = g.addsOwnBias;
  const auto packingTo = [&](const dnnl::memory::desc &plain, const dnnl::memory::desc &wanted) {
    return PackedWeight(device, given.name, plain, wanted, PackedWeight::Direction::intoLibrary);
  };
  packingA = packingTo(g.plainA, g.a);
  packingB = packingTo(g.plainB, g.b);
  fresh = makeCall(unit, device, g, false);
  if (hasOwnBias)
    biasStrides = stridesOver(ofRank(given.bias, output.size()));
  else if (hasBias)
    biasArgument = pdc::runtime::biasArgument(g);
  if (given.sums)
    makeAdding(unit, device, g);
  requireWorkspace(unit,
                   packingA.packedBytes() + packingB.packedBytes() +
                       std::max(fresh.scratch(), adding.scratch() + addedBytes),
                   device);
}

void MatrixProduct::makeAdding(const std::string &unit, const Device &device,
                               const MatrixProductGeometry &g) {
  rowsAdded = g.rowsAddedAtOnce;
  if (!rowsAdded) {
    adding = makeCall(unit, device, g, true);
    return;
  }
  const MatrixProductGeometry rows = firstRows(g);
  adding = makeCall(unit, device, rows, false);
  columnsAdded = g.y.dims()[1];
  terms = g.a.dims()[1];
  copiesRows = rows.copiedTerms > 0;
  addedBytes = rows.addedBytes();
}

void MatrixProduct::addOwnBias(const float *bias, float *y) const {
  const float least = hasRelu ? 0 : -std::numeric_limits<float>::infinity();
  const int64_t columns = output.back(), rows = product(output) / columns;
  const int64_t step = biasStrides.back();
  const std::span<const int64_t> outer(output.data(), output.size() - 1);
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * columns >= 1 << 15)
  for (int64_t row = 0; row < rows; ++row) {
    const float *added = bias + offsetAt(row, outer, biasStrides);
    float *to = y + row * columns;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i)
      to[i] = std::max(to[i] + added[i * step], least);
  }
}

void MatrixProduct::multiply(LibraryCall &product, const float *a, float *y, std::byte *scratch) {
  product.setData(DNNL_ARG_SRC, a);
  product.setData(DNNL_ARG_DST, y);
  product.execute(scratch);
}

/// The factors of rows from `first` on.
const float *MatrixProduct::rowsOf(const float *a, int64_t first, float *copy) const {
  if (!copiesRows)
    return a + first * terms;
  const int64_t rows = product(output) / columnsAdded;
  for (int64_t term = 0; term < terms; ++term)
    std::copy_n(a + term * rows + first, rowsAdded, copy + term * rowsAdded);
  return copy;
}

/// The last rows are computed with rows before them that have been added.
void MatrixProduct::addRows(const float *a, float *y, std::byte *scratch) {
  auto *sums = reinterpret_cast<float *>(scratch);
  const int64_t rows = product(output) / columnsAdded;
  for (int64_t row = 0; row < rows; row += rowsAdded) {
    const int64_t first = std::min(row, rows - rowsAdded), skipped = (row - first) * columnsAdded;
    const float *factors = rowsOf(a, first, sums + rowsAdded * columnsAdded);
    multiply(adding, factors, sums, scratch + addedBytes);
    const float *from = sums + skipped;
    float *to = y + row * columnsAdded;
    const int64_t count = rowsAdded * columnsAdded - skipped;
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; ++i)
      to[i] += from[i];
  }
}

void MatrixProduct::call(LibraryCall &product, const Run &run, const float *a, const float *b,
                         const float *bias, float *y) {
  if (!product || hasBias != (bias != nullptr))
    throw Error("matrix product: called with a bias or a sum it was not made for");
  if (swapsFactors)
    std::swap(a, b);
  std::byte *scratch = run.scratchBase;
  const auto *packedA = static_cast<const float *>(packingA.pack(a, scratch));
  product.setData(DNNL_ARG_WEIGHTS, packingB.pack(b, scratch));
  if (biasArgument)
    product.setData(biasArgument, bias);
  if (&product == &adding && rowsAdded)
    addRows(packedA, y, scratch);
  else
    multiply(product, packedA, y, scratch);
  if (hasOwnBias)
    addOwnBias(bias, y);
}

} // namespace pdc::runtime
