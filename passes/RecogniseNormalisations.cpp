#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The first of the last dimensions over which a value has the mean of `rows`, and is 1 itself.
std::optional<int64_t> meanAxis(Value value, Value rows) {
  NodeOp mean = maker(beforeViews(value), "ReduceMean");
  if (!mean || mean.getOperand(0) != rows || mean.getNumOperands() < 2 ||
      !isConstant(mean.getOperand(1).getDefiningOp()))
    return std::nullopt;
  std::vector<int64_t> axes = constantOf(mean.getOperand(1))->toIntegers();
  SmallVector<int64_t> shape(shapeOf(rows));
  const auto rank = static_cast<int64_t>(shape.size());
  for (int64_t &axis : axes)
    axis += axis < 0 ? rank : 0;
  llvm::sort(axes);
  const int64_t first = rank - static_cast<int64_t>(axes.size());
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis != first + static_cast<int64_t>(i))
      return std::nullopt;
    shape[axis] = 1;
  }
  return axes.empty() || shapeOf(value) != ArrayRef<int64_t>(shape) ? std::nullopt
                                                                    : std::optional(first);
}

/// Whether a value has one element per element of a row that begins at the axis.
bool isOfRow(Value value, Value rows, int64_t axis) {
  return shapeOf(value) == shapeOf(rows).drop_front(axis);
}

/// Rows without their mean.
struct Centred {
  Value x;
  int64_t axis;
  bool operator==(const Centred &) const = default;
};

std::optional<Centred> matchCentred(Value value) {
  NodeOp difference = maker(value, "Sub");
  const std::optional<int64_t> axis =
      difference ? meanAxis(difference.getOperand(1), difference.getOperand(0)) : std::nullopt;
  return axis ? std::optional(Centred{difference.getOperand(0), *axis}) : std::nullopt;
}

/// Of two values whether they are equal: torch.var centres what its caller centres, too.
bool areSameRows(Value first, Value second) {
  const std::optional<Centred> centred = matchCentred(first);
  return first == second || (centred && centred == matchCentred(second));
}

bool isSquare(Value value, Value rows) {
  if (NodeOp power = maker(value, "Pow"))
    return areSameRows(power.getOperand(0), rows) && isNumber(power.getOperand(1), 2);
  NodeOp product = maker(value, "Mul");
  return product && product.getOperand(0) == product.getOperand(1) &&
         areSameRows(product.getOperand(0), rows);
}

/// Rows divided by the root of their mean square.
struct Normalised {
  Value rows;
  int64_t axis;
  double epsilon;
};

/// ReduceMean of the squares -> Add epsilon -> Sqrt.
std::optional<Normalised> matchDeviation(Value deviation, Value rows) {
  NodeOp root = maker(deviation, "Sqrt");
  NodeOp shifted = root ? maker(root.getOperand(0), "Add") : NodeOp();
  for (int i : {0, 1}) {
    const Value mean = shifted ? shifted.getOperand(i) : Value();
    NodeOp squares = mean ? maker(beforeViews(mean), "ReduceMean") : NodeOp();
    if (!squares || !isSquare(squares.getOperand(0), rows))
      continue;
    const std::optional<double> epsilon = numberOf(shifted.getOperand(1 - i));
    const std::optional<int64_t> axis = meanAxis(mean, squares.getOperand(0));
    if (epsilon && axis)
      return Normalised{rows, *axis, *epsilon};
  }
  return std::nullopt;
}

/// What is divided by where a value is 1 / deviation; else null.
Value inverted(Value value) {
  if (NodeOp inverse = maker(value, "Reciprocal"))
    return inverse.getOperand(0);
  NodeOp quotient = maker(value, "Div");
  return quotient && isNumber(quotient.getOperand(0), 1) ? quotient.getOperand(1) : Value();
}

/// Normalised rows times one number per element of a row.
struct Scaled {
  Normalised normalised;
  Value scale;
};

std::optional<Scaled> scaledRows(Value rows, Value deviation, Value scale) {
  std::optional<Normalised> found = matchDeviation(deviation, rows);
  if (!found || !isOfRow(scale, rows, found->axis))
    return std::nullopt;
  return Scaled{*found, scale};
}

/// rows / deviation times scale; or rows, 1 / deviation and scale multiplied in any order.
std::optional<Scaled> matchScaled(NodeOp root) {
  Product product(root->getResult(0));
  const size_t count = product.factors.size();
  if (product.number != 1 || count < 2 || count > 3)
    return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    Value factor = product.factors[i], next = product.factors[(i + 1) % count];
    Value other = product.factors[(i + 2) % count];
    std::optional<Scaled> found;
    if (NodeOp quotient = maker(factor, "Div"); quotient && count == 2)
      found = scaledRows(quotient.getOperand(0), quotient.getOperand(1), next);
    if (Value deviation = inverted(factor); deviation && count == 3) {
      found = scaledRows(next, deviation, other);
      found = found ? found : scaledRows(other, deviation, next);
    }
    if (found)
      return found;
  }
  return std::nullopt;
}

} // namespace

///     x -> Sub ReduceMean -> (as below) -> Mul scale -> Add bias
std::optional<Composite> pdc::matchLayerNormalization(NodeOp root) {
  for (int i : {0, 1}) {
    NodeOp product = maker(root.getOperand(i), "Mul");
    std::optional<Scaled> found = product ? matchScaled(product) : std::nullopt;
    std::optional<Centred> centred = found ? matchCentred(found->normalised.rows) : std::nullopt;
    if (!centred || centred->axis != found->normalised.axis)
      continue;
    const Value bias = root.getOperand(1 - i);
    if (!isOfRow(bias, centred->x, centred->axis))
      continue;
    const Attributes attributes = {{"axis", centred->axis}, {"epsilon", found->normalised.epsilon}};
    return Composite{"LayerNormalization", {centred->x, found->scale, bias}, attributes, 3};
  }
  return std::nullopt;
}

///     x -> Div Sqrt(ReduceMean(x x) + epsilon) -> Mul scale
std::optional<Composite> pdc::matchRootMeanSquare(NodeOp root) {
  std::optional<Scaled> found = matchScaled(root);
  // Centred rows are a LayerNormalization without what follows it.
  std::optional<Centred> centred = found ? matchCentred(found->normalised.rows) : std::nullopt;
  if (!found || (centred && centred->axis == found->normalised.axis))
    return std::nullopt;
  const Attributes attributes = {{"axis", found->normalised.axis},
                                 {"epsilon", found->normalised.epsilon}};
  return Composite{"RMSNormalization", {found->normalised.rows, found->scale}, attributes, 2};
}
