#include "runtime/kernels/MatrixProduct.h"

#include "runtime/ShapeText.h"
#include "runtime/kernels/Layouts.h"
#include "runtime/kernels/Library.h"
#include "runtime/kernels/PackedProduct.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;

/// A stored matrix as the product sees it.
static Descriptor operand(std::span<const int64_t> shape, bool transposed) {
  Descriptor stored = describe(shape, "");
  if (!transposed)
    return stored;
  std::vector<int> permutation;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    permutation.push_back(d);
  std::swap(permutation[shape.size() - 1], permutation[shape.size() - 2]);
  return stored.permute_axes(permutation);
}

static Dimensions padded(const Dimensions &shape, size_t rank) {
  Dimensions result;
  while (result.size() + shape.size() < rank)
    result.push_back(1);
  for (int64_t size : shape)
    result.push_back(size);
  return result;
}

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

/// A bias other than one number, one per column or one per element, as one per row: the library
/// would leave such a product to its reference.
static bool addsOwnBias(const MatrixProductFields &f) {
  const int64_t elements = product(f.bias);
  if (f.bias.empty() || elements == 1 || elements == product(f.output))
    return false;
  return elements != f.bias.back() || elements != f.output.back();
}

/// The library scales its bias together with the product and takes one value per column only; any
/// other bias is added behind.
static bool addsBiasBehind(const MatrixProductFields &f) {
  int64_t elements = 1;
  for (int64_t size : f.bias)
    elements *= size;
  return !f.bias.empty() &&
         (f.alpha != 1 || elements != f.bias.back() || elements != f.output.back());
}

static dnnl::primitive_attr attributesFor(const MatrixProductFields &f, bool add,
                                          const Descriptor &bias) {
  dnnl::primitive_attr attributes = libraryAttributes();
  if (f.alpha != 1)
    attributes.set_output_scales(0, {static_cast<float>(f.alpha)});
  dnnl::post_ops epilogue;
  if (add)
    epilogue.append_sum(1);
  if (addsBiasBehind(f))
    epilogue.append_binary(dnnl::algorithm::binary_add, bias);
  if (f.relu)
    epilogue.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(epilogue);
  return attributes;
}

static int biasArgument(const MatrixProductFields &f) {
  return addsBiasBehind(f) ? DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1 : DNNL_ARG_BIAS;
}

/// What the library computes of the product: all but a bias of our own and what comes behind it.
static MatrixProductFields libraryPart(MatrixProductFields f) {
  if (addsOwnBias(f)) {
    f.bias = {};
    f.relu = 0;
  }
  return f;
}

static bool isOneMatrix(const Dimensions &shape) {
  return product({shape.data(), shape.size() - 2}) == 1;
}

/// Whether one matrix meets a batch of columns.
static bool hasColumns(const MatrixProductFields &f) {
  return f.output.size() > 2 && isOneMatrix(f.a) && f.b.size() == f.output.size() &&
         f.output.back() == 1 && product(f.bias) == 1;
}

/// The result's columns as rows: (a b)^T = b^T a^T, where a column lies as a row does.
static MatrixProductFields withColumnsAsRows(MatrixProductFields f) {
  const int64_t inner = f.a[f.a.size() - (f.transA ? 2 : 1)];
  const int64_t rows = f.output[f.output.size() - 2], outer = product(f.output) / rows;
  f.b = {f.a[f.a.size() - 2], f.a.back()};
  f.transB = !f.transA;
  f.a = {outer, inner};
  f.transA = 0;
  f.output = {outer, rows};
  if (!f.bias.empty())
    f.bias = {1, 1};
  return f;
}

/// All rows of a batch times one matrix are one matrix, as are one matrix times all columns: its
/// operands are read once.
static MatrixProductFields asOneMatrix(MatrixProductFields f) {
  if (f.output.size() == 2)
    return f;
  if (hasColumns(f))
    return withColumnsAsRows(f);
  const bool rowsFollow = f.a.size() == f.output.size() && !f.transA;
  if (!isOneMatrix(f.b) || !rowsFollow || (!f.bias.empty() && product(f.bias) != f.bias.back()))
    return f;
  const int64_t rows = product({f.output.data(), f.output.size() - 1});
  f.a = {rows, f.a.back()};
  f.b = {f.b[f.b.size() - 2], f.b.back()};
  f.output = {rows, f.output.back()};
  if (!f.bias.empty())
    f.bias = {1, f.bias.back()};
  return f;
}

/// Rows that lie a multiple of as many floats apart share a few lines of the cache.
static constexpr int64_t kCrowded = 4096 / sizeof(float);

/// Rows of b that crowd each other make products of many rows three times as slow. oneDNN 2.6
/// copies such a matrix in parts where its width is a power of two; otherwise it is packed before.
static bool packsB(const MatrixProductFields &f) {
  constexpr int64_t kRows = 128, kInner = 64;
  const int64_t columns = f.output.back();
  return f.output.size() == 2 && !f.transB && columns % kCrowded == 0 &&
         !std::has_single_bit(static_cast<uint64_t>(columns)) && f.output[0] >= kRows &&
         f.b[0] >= kInner;
}

/// A transposed a whose rows crowd each other halves the speed of oneDNN 2.6 under AVX2: it is
/// copied before to rows farther apart, which pays from some columns of the result on.
static bool spreadsA(const MatrixProductFields &f) {
  constexpr int64_t kColumns = 64, kInner = 64;
  return packed::kLanes == 8 && f.output.size() == 2 && f.transA && f.a.back() % kCrowded == 0 &&
         f.output.back() >= kColumns && f.a[0] >= kInner;
}

/// a as the product reads it.
static Descriptor operandA(const MatrixProductFields &f) {
  if (!spreadsA(f))
    return operand(padded(f.a, f.output.size()), f.transA);
  constexpr int64_t kLine = 64 / sizeof(float);
  return Descriptor({f.a[1], f.a[0]}, dnnl::memory::data_type::f32,
                    dnnl::memory::dims{1, f.a[1] + kLine});
}

/// b as the product reads it.
static Descriptor operandB(const Device &device, const MatrixProductFields &f) {
  if (!packsB(f))
    return operand(padded(f.b, f.output.size()), f.transB);
  ThreadScope threads(device);
  const Descriptor any(libraryList(f.b), dnnl::memory::data_type::f32,
                       dnnl::memory::format_tag::any);
  const dnnl::matmul::desc product(operand(f.a, f.transA), any, describe(f.output, ""));
  return dnnl::matmul::primitive_desc(product, libraryAttributes(), libraryEngine()).weights_desc();
}

static LibraryCall makeCall(const std::string &unit, const Device &device,
                            const MatrixProductFields &f, const Descriptor &a, const Descriptor &b,
                            bool add) {
  size_t rank = f.output.size();
  Descriptor y = describe(f.output, "");
  Descriptor bias = f.bias.empty() ? Descriptor() : describe(padded(f.bias, rank), "");
  LibraryCall call = makeLibraryCall<dnnl::matmul>(unit, device, Fallback::gemm, [&] {
    bool behind = f.bias.empty() || addsBiasBehind(f);
    dnnl::matmul::desc product =
        behind ? dnnl::matmul::desc(a, b, y) : dnnl::matmul::desc(a, b, bias, y);
    return dnnl::matmul::primitive_desc(product, attributesFor(f, add, bias), libraryEngine());
  });
  call.addMemory(DNNL_ARG_SRC, a);
  call.addMemory(DNNL_ARG_WEIGHTS, b);
  if (!f.bias.empty())
    call.addMemory(biasArgument(f), bias);
  call.addMemory(DNNL_ARG_DST, y);
  return call;
}

MatrixProduct::MatrixProduct(const Device &device, const MatrixProductFields &given)
    : hasBias(!given.bias.empty()), hasOwnBias(addsOwnBias(given)), hasRelu(given.relu != 0),
      output(given.output), threads(device.threads) {
  const std::string unit = unitText(given);
  requireSinglePrecision(unit, given.compute);
  const MatrixProductFields part = libraryPart(given), f = asOneMatrix(part);
  swapsFactors = hasColumns(part);
  const Descriptor a = operandA(f), b = operandB(device, f);
  const auto packingTo = [&](const Descriptor &given, const Descriptor &wanted) {
    return PackedWeight(device, f.name, given, wanted, PackedWeight::Direction::intoLibrary);
  };
  if (spreadsA(f))
    packingA = packingTo(operand(f.a, true), a);
  if (packsB(f))
    packingB = packingTo(describe(f.b, ""), b);
  fresh = makeCall(unit, device, f, a, b, false);
  if (hasOwnBias)
    biasStrides = stridesOver(padded(given.bias, output.size()));
  else if (hasBias)
    biasArgument = pdc::runtime::biasArgument(f);
  if (given.sums)
    adding = makeCall(unit, device, f, a, b, true);
  requireWorkspace(unit,
                   packingA.packedBytes() + packingB.packedBytes() +
                       std::max(fresh.scratch(), adding.scratch()),
                   device);
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

void MatrixProduct::call(LibraryCall &product, const Run &run, const float *a, const float *b,
                         const float *bias, float *y) {
  if (!product || hasBias != (bias != nullptr))
    throw Error("matrix product: called with a bias or a sum it was not made for");
  if (swapsFactors)
    std::swap(a, b);
  std::byte *scratch = run.scratchBase;
  product.setData(DNNL_ARG_SRC, packingA.pack(a, scratch));
  product.setData(DNNL_ARG_WEIGHTS, packingB.pack(b, scratch));
  if (biasArgument)
    product.setData(biasArgument, bias);
  product.setData(DNNL_ARG_DST, y);
  product.execute(scratch);
  if (hasOwnBias)
    addOwnBias(bias, y);
}

} // namespace pdc::runtime
