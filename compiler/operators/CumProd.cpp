#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// Products of all elements up to each one (ONNX CumProd, opset 26).
namespace pdc {

namespace {

class Products {
public:
  explicit Products(CompositionBuilder &b)
      : b(b), type(b.type(b.input(0))), isReversed(b.attributes().integer("reverse", 0) != 0) {
    const std::vector<int64_t> axes = knownIntegers(b, 1);
    if (axes.size() != 1)
      b.refuse("axis " + shapeText(axes) + " of input " + type.toString() + ", expected one number");
    axis = axisFromStart(b, axes[0]);
    size = type.shape[axis];
  }

  /// Products of two neighbours, then of four, and so on: as many steps as the length has digits,
  /// and no quotient, so that elements of zero have their gradients too.
  NodeValue run() {
    NodeValue y = b.input(0);
    if (b.attributes().integer("exclusive", 0) != 0)
      y = moved(y, 1);
    for (int64_t step = 1; step < size; step *= 2)
      y = add(b, "Mul", {y, moved(y, step)});
    return y;
  }

private:
  /// The elements that many places further on, behind ones.
  NodeValue moved(NodeValue x, int64_t by) {
    by = std::min(by, size);
    std::vector<int64_t> pads(2 * type.shape.size(), 0);
    pads[axis] = isReversed ? -by : by;
    pads[type.shape.size() + axis] = -pads[axis];
    return add(b, "Pad", {x, b.constant(Tensor::vector(pads)), number(b, type.element, 1)});
  }

  CompositionBuilder &b;
  TensorType type;
  bool isReversed;
  int64_t axis = 0, size = 0;
};

std::vector<NodeValue> composeCumProd(CompositionBuilder &b) { return {Products(b).run()}; }

} // namespace

std::span<const ComposedOperator> cumulativeForms() {
  static const ComposedOperator operators[] = {
      {{.name = "CumProd",
        .firstOpset = 26,
        .lastOpset = kLastOpset,
        .inputs = {{"x"}, {.name = "axis", .known = true}},
        .outputs = {{"y"}}},
       composeCumProd},
  };
  return operators;
}

} // namespace pdc
