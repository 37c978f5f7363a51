#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Window.h"

#include <algorithm>
#include <cmath>
#include <numeric>

/// LpPool and GlobalLpPool: norms of windows, as means of powers times the window's size.
namespace pdc {

namespace {

int64_t orderOf(CompositionBuilder &b) {
  const int64_t p = b.attributes().integer("p", 2);
  if (p < 1 || p > 64)
    b.refuse("p is " + std::to_string(p) + ", expected 1 to 64");
  return p;
}

NodeValue powerOf(CompositionBuilder &b, NodeValue x, int64_t p) {
  if (p == 1)
    return add(b, "Abs", {x});
  if (p == 2)
    return add(b, "Mul", {x, x});
  NodeValue exponent = number(b, b.type(x).element, static_cast<double>(p));
  return add(b, "Pow", {p % 2 ? add(b, "Abs", {x}) : x, exponent});
}

/// A window of zeros has a norm of zero and gets no gradient, where a root's slope is infinite.
NodeValue normOf(CompositionBuilder &b, NodeValue sum, int64_t p) {
  if (p == 1)
    return sum;
  if (p == 2)
    return rootOf(b, sum);
  const ElementType element = b.type(sum).element;
  NodeValue zero = number(b, element, 0), isZero = add(b, "Equal", {sum, zero});
  NodeValue base = add(b, "Where", {isZero, number(b, element, 1), sum});
  NodeValue root = add(b, "Pow", {base, number(b, element, 1 / static_cast<double>(p))});
  return add(b, "Where", {isZero, zero, root});
}

/// The input with zeros around it, so that each window lies inside and the mean over it divides by
/// the same number everywhere.
NodeValue padded(CompositionBuilder &b, NodeValue x, const Window &window) {
  const std::vector<int64_t> shape = b.type(x).shape;
  const size_t rank = shape.size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t d = 0; d + 2 < rank; ++d) {
    const int64_t needed = (window.output[d] - 1) * window.strides[d] +
                           (window.kernel[d] - 1) * window.dilations[d] + 1;
    pads[d + 2] = window.padsBegin[d];
    pads[d + 2 + rank] = std::max<int64_t>(0, needed - shape[d + 2] - window.padsBegin[d]);
  }
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; }))
    return x;
  return add(b, "Pad", {x, b.constant(Tensor::vector(pads))});
}

std::vector<NodeValue> composeLpPool(CompositionBuilder &b) {
  const int64_t p = orderOf(b);
  const std::vector<int64_t> shape = b.type(b.input(0)).shape;
  const std::string text = b.describe();
  Window window = resolveWindow({"LpPool", text, b.attributes(), {}, {}, 1}, shape);
  NodeValue powers = padded(b, powerOf(b, b.input(0), p), window);
  NodeValue means = add(b, "AveragePool", {powers},
                        {{"kernel_shape", window.kernel},
                         {"strides", window.strides},
                         {"dilations", window.dilations}});
  // What lies behind the last window is of none.
  const double size = static_cast<double>(product(window.kernel));
  return {normOf(b, add(b, "Mul", {means, number(b, b.type(means).element, size)}), p)};
}

std::vector<NodeValue> composeGlobalLpPool(CompositionBuilder &b) {
  const int64_t p = orderOf(b);
  std::vector<int64_t> axes(
      static_cast<size_t>(std::max<int64_t>(0, b.type(b.input(0)).rank() - 2)));
  std::iota(axes.begin(), axes.end(), 2);
  NodeValue sums =
      add(b, "ReduceSum", {powerOf(b, b.input(0), p), b.constant(Tensor::vector(axes))},
          {{"keepdims", int64_t(1)}});
  return {normOf(b, sums, p)};
}

} // namespace

std::span<const ComposedOperator> lpPoolForms() {
  static const ComposedOperator operators[] = {
      {{.name = "LpPool",
        .firstOpset = 2,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeLpPool},
      {{.name = "GlobalLpPool",
        .firstOpset = 2,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeGlobalLpPool},
  };
  return operators;
}

} // namespace pdc
