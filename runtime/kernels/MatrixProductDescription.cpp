#include "runtime/kernels/MatrixProductDescription.h"

#include "runtime/kernels/Layouts.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <bit>

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;

Dimensions ofRank(const Dimensions &shape, size_t rank) {
  Dimensions result;
  while (result.size() + shape.size() < rank)
    result.push_back(1);
  for (int64_t size : shape)
    result.push_back(size);
  return result;
}

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

/// A bias other than one number, one per column or one per element, as one per row: the library
/// would leave such a product to its reference.
static bool hasOwnBias(const MatrixProductFields &f) {
  const int64_t elements = product(f.bias);
  if (f.bias.empty() || elements == 1 || elements == product(f.output))
    return false;
  return elements != f.bias.back() || elements != f.output.back();
}

/// The library scales its bias together with the product and takes one value per column only; any
/// other bias is added behind.
static bool addsBiasBehind(const MatrixProductFields &f) {
  const int64_t elements = product(f.bias);
  return !f.bias.empty() &&
         (f.alpha != 1 || elements != f.bias.back() || elements != f.output.back());
}

/// What the library computes of the product: all but a bias of our own and what comes behind it.
static MatrixProductFields libraryPart(MatrixProductFields f) {
  if (hasOwnBias(f)) {
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
static bool spreadsA(const MatrixProductFields &f, int lanes) {
  constexpr int64_t kColumns = 64, kInner = 64;
  return lanes == 8 && f.output.size() == 2 && f.transA && f.a.back() % kCrowded == 0 &&
         f.output.back() >= kColumns && f.a[0] >= kInner;
}

static Descriptor spread(const MatrixProductFields &f) {
  constexpr int64_t kLine = 64 / sizeof(float);
  return Descriptor({f.a[1], f.a[0]}, dnnl::memory::data_type::f32,
                    dnnl::memory::dims{1, f.a[1] + kLine});
}

/// b in the layout that the library asks for.
static Descriptor packed(const MatrixProductFields &f) {
  const Descriptor any(libraryList(f.b), dnnl::memory::data_type::f32,
                       dnnl::memory::format_tag::any);
  const dnnl::matmul::desc product(operand(f.a, f.transA), any, describe(f.output, ""));
  return dnnl::matmul::primitive_desc(product, libraryAttributes(), libraryEngine()).weights_desc();
}

/// To add, oneDNN 2.6's products under AVX-512 walk down a few columns of the result, each row of
/// which is a page of its own: beyond the caches and of few terms, that takes two to three times as
/// long as to write the result. Rows that stay in a cache are written there, and added from it.
static int64_t rowsAddedAtOnce(const MatrixProductFields &f, int lanes) {
  constexpr int64_t kBeyondCaches = int64_t(2) << 20, kInCache = int64_t(1) << 20, kTerms = 256;
  if (lanes != 16 || f.output.size() != 2)
    return 0;
  const int64_t rows = f.output[0], rowBytes = 4 * f.output[1], terms = f.a[f.transA ? 0 : 1];
  if (rows * rowBytes < kBeyondCaches || terms > kTerms)
    return 0;
  constexpr int64_t kLine = 64 / sizeof(float);
  return std::min(rows, std::max<int64_t>(1, kInCache / rowBytes / kLine) * kLine);
}

MatrixProductGeometry::MatrixProductGeometry(const MatrixProductFields &given, int lanes)
    : product(asOneMatrix(libraryPart(given))), swapsFactors(hasColumns(libraryPart(given))),
      addsOwnBias(hasOwnBias(given)) {
  const size_t rank = product.output.size();
  a = operand(ofRank(product.a, rank), product.transA);
  b = operand(ofRank(product.b, rank), product.transB);
  y = describe(product.output, "");
  if (!product.bias.empty())
    bias = describe(ofRank(product.bias, rank), "");
  if (spreadsA(product, lanes)) {
    plainA = a;
    a = spread(product);
  }
  if (packsB(product)) {
    plainB = b;
    b = packed(product);
  }
  rowsAddedAtOnce = runtime::rowsAddedAtOnce(product, lanes);
}

static dnnl::primitive_attr attributesFor(const MatrixProductGeometry &g, bool add) {
  dnnl::primitive_attr attributes = libraryAttributes();
  if (g.product.alpha != 1)
    attributes.set_output_scales(0, {static_cast<float>(g.product.alpha)});
  dnnl::post_ops epilogue;
  if (add)
    epilogue.append_sum(1);
  if (addsBiasBehind(g.product))
    epilogue.append_binary(dnnl::algorithm::binary_add, g.bias);
  if (g.product.relu)
    epilogue.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(epilogue);
  return attributes;
}

int biasArgument(const MatrixProductGeometry &g) {
  return addsBiasBehind(g.product) ? DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1
                                   : DNNL_ARG_BIAS;
}

dnnl::matmul::primitive_desc describeMatrixProduct(const MatrixProductGeometry &g, bool add) {
  const bool behind = g.product.bias.empty() || addsBiasBehind(g.product);
  return {behind ? dnnl::matmul::desc(g.a, g.b, g.y) : dnnl::matmul::desc(g.a, g.b, g.bias, g.y),
          attributesFor(g, add), libraryEngine()};
}

int64_t MatrixProductGeometry::addedBytes() const {
  return alignedBytes(4 * rowsAddedAtOnce * (y.dims()[1] + copiedTerms));
}

MatrixProductGeometry firstRows(MatrixProductGeometry g) {
  const int64_t terms = g.a.dims()[1];
  g.product.a[g.product.transA ? 1 : 0] = g.rowsAddedAtOnce;
  g.product.output[0] = g.rowsAddedAtOnce;
  g.a = operand(g.product.a, g.product.transA);
  g.y = describe(g.product.output, "");
  g.copiedTerms = g.product.transA ? terms : 0;
  return g;
}

} // namespace pdc::runtime
