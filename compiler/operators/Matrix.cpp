#include "compiler/operators/Composition.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

namespace pdc {

static bool flag(const Attributes &attributes, const char *name) {
  return attributes.integer(name, 0) != 0;
}

/// Rows and columns of the last two dimensions as the product sees them.
struct MatrixShape {
  int64_t rows, columns;
  MatrixShape(const std::vector<int64_t> &shape, bool transposed)
      : rows(shape[shape.size() - 2]), columns(shape[shape.size() - 1]) {
    if (transposed)
      std::swap(rows, columns);
  }
};

static std::vector<TensorType> inferGemm(const NodeView &node) {
  const TensorType &a = node.input(0), &b = node.input(1);
  if (a.rank() != 2 || b.rank() != 2)
    refuse(node, "operands " + a.toString() + " and " + b.toString() + ", expected rank 2");
  MatrixShape left(a.shape, flag(node.attributes, "transA"));
  MatrixShape right(b.shape, flag(node.attributes, "transB"));
  if (left.columns != right.rows)
    refuse(node, "inner dimensions of " + a.toString() + " and " + b.toString() + " differ: " +
                     std::to_string(left.columns) + " and " + std::to_string(right.rows));
  TensorType y{a.element, {left.rows, right.columns}};
  if (node.hasInput(2) && broadcastShape(node, node.input(2).shape, y.shape) != y.shape)
    refuse(node, "C " + node.input(2).toString() + " does not broadcast to " + y.toString());
  return {y};
}

/// y[i,j] += alpha sum over k of a[i,k] b[k,j], for matrices that start at these elements.
static void multiply(const double *a, MatrixShape left, bool transA, const double *b,
                     MatrixShape right, bool transB, double alpha, double *y) {
  for (int64_t i = 0; i < left.rows; ++i)
    for (int64_t k = 0; k < left.columns; ++k) {
      double value = alpha * (transA ? a[k * left.rows + i] : a[i * left.columns + k]);
      for (int64_t j = 0; j < right.columns; ++j)
        y[i * right.columns + j] +=
            value * (transB ? b[j * right.rows + k] : b[k * right.columns + j]);
    }
}

static std::vector<Tensor> evaluateGemm(const NodeView &node,
                                        std::span<const Tensor *const> inputs) {
  const Tensor &a = *inputs[0], &b = *inputs[1];
  bool transA = flag(node.attributes, "transA"), transB = flag(node.attributes, "transB");
  Tensor y = Tensor::zeros(inferGemm(node)[0]);
  if (inputs.size() > 2 && inputs[2]) {
    auto strides = broadcastStrides(inputs[2]->type.shape, y.type.shape);
    std::vector<int64_t> index(2);
    for (double &element : y.data) {
      element = node.attributes.number("beta", 1) * inputs[2]->data[offsetOf(index, strides)];
      advance(index, y.type.shape);
    }
  }
  multiply(a.data.data(), {a.type.shape, transA}, transA, b.data.data(), {b.type.shape, transB},
           transB, node.attributes.number("alpha", 1), y.data.data());
  return {y};
}

static GradientValue gemm(GradientBuilder &b, GradientValue left, bool transA, GradientValue right,
                          bool transB) {
  return add(b, "Gemm", {left, right},
             {{"transA", int64_t(transA)},
              {"transB", int64_t(transB)},
              {"alpha", b.attributes().number("alpha", 1)},
              {"beta", 1.0}});
}

static void differentiateGemm(GradientBuilder &b) {
  bool transA = flag(b.attributes(), "transA"), transB = flag(b.attributes(), "transB");
  GradientValue dy = b.outputGradient(0);
  if (b.wants(0))
    b.setInputGradient(0, transA ? gemm(b, b.input(1), transB, dy, true)
                                 : gemm(b, dy, false, b.input(1), !transB));
  if (b.wants(1))
    b.setInputGradient(1, transB ? gemm(b, dy, true, b.input(0), transA)
                                 : gemm(b, b.input(0), !transA, dy, false));
  if (b.inputCount() < 3 || !b.wants(2))
    return;
  GradientValue dc = reducedTo(b, dy, b.type(b.input(2)).shape);
  double beta = b.attributes().number("beta", 1);
  if (beta != 1)
    dc = add(b, "Mul", {dc, b.constant(Tensor::scalar(b.type(dc).element, beta))});
  b.setInputGradient(2, dc);
}

/// The shapes of a product with one-dimensional operands made matrices.
struct Product {
  std::vector<int64_t> a, b, y; ///< all of rank 2 at least
  std::vector<int64_t> result;  ///< y without the dimensions that were added
};

static Product resolveProduct(const NodeView &node, const std::vector<int64_t> &a,
                              const std::vector<int64_t> &b) {
  if (a.empty() || b.empty())
    refuse(node, "operands " + shapeText(a) + " and " + shapeText(b) + ", expected no scalars");
  Product p{a, b, {}, {}};
  if (a.size() == 1)
    p.a.insert(p.a.begin(), 1);
  if (b.size() == 1)
    p.b.push_back(1);
  MatrixShape left(p.a, flag(node.attributes, "transA"));
  MatrixShape right(p.b, flag(node.attributes, "transB"));
  if (left.columns != right.rows)
    refuse(node, "inner dimensions of " + shapeText(a) + " and " + shapeText(b) + " differ");
  p.y = broadcastShape(node, {p.a.begin(), p.a.end() - 2}, {p.b.begin(), p.b.end() - 2});
  p.result = p.y;
  p.y.insert(p.y.end(), {left.rows, right.columns});
  if (a.size() > 1)
    p.result.push_back(left.rows);
  if (b.size() > 1)
    p.result.push_back(right.columns);
  return p;
}

static std::vector<TensorType> inferMatMul(const NodeView &node) {
  const TensorType &a = node.input(0), &b = node.input(1);
  return {{a.element, resolveProduct(node, a.shape, b.shape).result}};
}

static std::vector<Tensor> evaluateMatMul(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  const Tensor &a = *inputs[0], &b = *inputs[1];
  bool transA = flag(node.attributes, "transA"), transB = flag(node.attributes, "transB");
  Product p = resolveProduct(node, a.type.shape, b.type.shape);
  MatrixShape left(p.a, transA), right(p.b, transB);
  Tensor y = Tensor::zeros({a.type.element, p.result});
  std::vector<int64_t> batch(p.y.begin(), p.y.end() - 2), index(batch.size());
  auto stridesA = broadcastStrides({p.a.begin(), p.a.end() - 2}, batch);
  auto stridesB = broadcastStrides({p.b.begin(), p.b.end() - 2}, batch);
  int64_t sizeY = left.rows * right.columns;
  for (int64_t i = 0; i < product(batch); ++i, advance(index, batch))
    multiply(a.data.data() + offsetOf(index, stridesA) * left.rows * left.columns, left, transA,
             b.data.data() + offsetOf(index, stridesB) * right.rows * right.columns, right, transB,
             node.attributes.number("alpha", 1), y.data.data() + i * sizeY);
  return {y};
}

static GradientValue matMul(GradientBuilder &b, GradientValue left, bool transA,
                            GradientValue right, bool transB) {
  bool plain = b.type(left).rank() == 2 && b.type(right).rank() == 2;
  Attributes attributes = {{"transA", int64_t(transA)}, {"transB", int64_t(transB)}};
  attributes.set("alpha", b.attributes().number("alpha", 1));
  if (plain)
    attributes.set("beta", 1.0);
  return add(b, plain ? "Gemm" : "FusedMatMul", {left, right}, attributes);
}

/// A weight matrix sums over all batch dimensions at once: one product of the flattened operands.
static GradientValue weightGradient(GradientBuilder &b, GradientValue left, GradientValue dy,
                                    bool transB) {
  auto flat = [&](GradientValue value) {
    std::vector<int64_t> shape = b.type(value).shape;
    return reshaped(b, value, {product(shape, 0, shape.size() - 1), shape.back()});
  };
  return transB ? matMul(b, flat(dy), true, flat(left), false)
                : matMul(b, flat(left), true, flat(dy), false);
}

static void differentiateMatMul(GradientBuilder &b) {
  std::vector<int64_t> shapeA = b.type(b.input(0)).shape, shapeB = b.type(b.input(1)).shape;
  Product p = resolveProduct({"MatMul", "", b.attributes(), {}, {}, 1}, shapeA, shapeB);
  if (!b.wants(0) && !b.wants(1))
    return;
  const bool transA = flag(b.attributes(), "transA"), transB = flag(b.attributes(), "transB");
  GradientValue dy = reshaped(b, b.outputGradient(0), p.y);
  if (b.wants(0)) {
    GradientValue right = reshaped(b, b.input(1), p.b);
    GradientValue da =
        transA ? matMul(b, right, transB, dy, true) : matMul(b, dy, false, right, !transB);
    b.setInputGradient(0, reshaped(b, reducedTo(b, da, p.a), shapeA));
  }
  if (!b.wants(1))
    return;
  GradientValue left = reshaped(b, b.input(0), p.a), db;
  if (p.b.size() == 2 && !transA)
    db = weightGradient(b, left, dy, transB);
  else
    db = reducedTo(
        b, transB ? matMul(b, dy, true, left, transA) : matMul(b, left, !transA, dy, false), p.b);
  b.setInputGradient(1, reshaped(b, db, shapeB));
}

static Cost costProduct(const NodeView &node, std::span<const TensorType> outputs) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  cost.bytes += outputs[0].bytes();
  const TensorType &a = node.input(0);
  size_t inner = flag(node.attributes, "transA") ? a.rank() - 2 : a.rank() - 1;
  cost.flops = 2.0 * outputs[0].elementCount() * a.shape[inner];
  return cost;
}

static void normaliseGemm(ImportedNode &node, int) {
  for (const char *name : {"alpha", "beta"})
    node.attributes.set(name, node.attributes.number(name, 1));
  for (const char *name : {"transA", "transB"})
    node.attributes.set(name, node.attributes.integer(name, 0));
}

/// Kernels add C as it is. That of a weight is scaled once per version.
static std::vector<NodeValue> composeGemm(CompositionBuilder &b) {
  const double beta = b.attributes().number("beta", 1);
  if (!b.input(2) || beta == 1)
    return {};
  Attributes attributes = b.attributes();
  attributes.set("beta", 1.0);
  NodeValue scaled = add(b, "Mul", {b.input(2), number(b, b.type(b.input(2)).element, beta)});
  return {add(b, "Gemm", {b.input(0), b.input(1), scaled}, attributes)};
}

std::span<const ComposedForm> matrixForms() {
  static const ComposedForm forms[] = {{"Gemm", composeGemm}};
  return forms;
}

std::span<const Operator> matrixOperators() {
  static const Operator operators[] = {
      {.name = "Gemm",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"A"}, {"B"}, {"C", true}},
       .outputs = {{"Y"}},
       .elements = floatElements(),
       .normalise = normaliseGemm,
       .infer = inferGemm,
       .evaluate = evaluateGemm,
       .differentiate = differentiateGemm,
       .cost = costProduct},
      {.name = "MatMul",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"A"}, {"B"}},
       .outputs = {{"Y"}},
       .elements = numberElements(),
       .infer = inferMatMul,
       .evaluate = evaluateMatMul,
       .differentiate = differentiateMatMul,
       .cost = costProduct},
      {.name = "FusedMatMul",
       .inputs = {{"A"}, {"B"}},
       .outputs = {{"Y"}},
       .infer = inferMatMul,
       .evaluate = evaluateMatMul,
       .differentiate = differentiateMatMul,
       .cost = costProduct},
  };
  return operators;
}

} // namespace pdc
