#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// MaxUnpool: elements put back to where MaxPool found them, all else zero.
namespace pdc {

namespace {

/// Of which the indices count the elements: the smallest that MaxPool makes the input of.
std::vector<int64_t> smallestShape(CompositionBuilder &b) {
  std::vector<int64_t> shape = b.type(b.input(0)).shape;
  const std::vector<int64_t> kernel = b.attributes().integers("kernel_shape");
  std::vector<int64_t> strides = b.attributes().integers("strides"),
                       pads = b.attributes().integers("pads");
  const size_t rank = kernel.size();
  if (strides.empty())
    strides.assign(rank, 1);
  if (pads.empty())
    pads.assign(2 * rank, 0);
  if (rank + 2 != shape.size() || strides.size() != rank || pads.size() != 2 * rank)
    b.refuse("kernel_shape, strides and pads do not fit input " + b.type(b.input(0)).toString());
  constexpr int64_t most = int64_t(1) << 31;
  for (size_t d = 0; d < rank; ++d) {
    const bool isSane = strides[d] > 0 && strides[d] < most / shape[d + 2] && kernel[d] > 0 &&
                        kernel[d] < most && std::max(pads[d], pads[d + rank]) < most &&
                        std::min(pads[d], pads[d + rank]) >= 0;
    if (!isSane)
      b.refuse("dimension " + std::to_string(d + 2) + " would have no size that is supported");
    shape[d + 2] = (shape[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + rank];
    if (shape[d + 2] < 1)
      b.refuse("dimension " + std::to_string(d + 2) + " would have " +
               std::to_string(shape[d + 2]) + " elements");
  }
  return shape;
}

/// Zeros behind what is smaller than the shape that is asked for.
NodeValue grown(CompositionBuilder &b, NodeValue y, const std::vector<int64_t> &shape) {
  const std::vector<int64_t> found = b.type(y).shape;
  std::vector<int64_t> pads(2 * found.size(), 0);
  for (size_t d = 0; d < found.size(); ++d) {
    if (shape.size() != found.size() || shape[d] < found[d])
      b.refuse("output_shape " + shapeText(shape) + ", expected at least " + shapeText(found));
    pads[d + found.size()] = shape[d] - found[d];
  }
  return add(b, "Pad", {y, b.constant(Tensor::vector(pads))});
}

/// Windows that overlap may have one maximum: it is put there as often, and what is added up is
/// their mean, which is that element.
NodeValue put(CompositionBuilder &b, NodeValue zeros, NodeValue indices, NodeValue x) {
  const Attributes adds = {{"axis", int64_t(0)}, {"reduction", std::string("add")}};
  NodeValue sum = add(b, "ScatterElements", {zeros, indices, x}, adds);
  const std::vector<int64_t> kernel = b.attributes().integers("kernel_shape");
  const std::vector<int64_t> strides = b.attributes().integers("strides");
  bool overlaps = false;
  for (size_t d = 0; d < kernel.size(); ++d)
    overlaps = overlaps || (strides.empty() ? 1 : strides[d]) < kernel[d];
  if (!overlaps)
    return sum;
  Tensor one = Tensor::zeros(b.type(x));
  std::ranges::fill(one.data, 1);
  NodeValue count = add(b, "ScatterElements", {zeros, indices, b.constant(std::move(one))}, adds);
  count = add(b, "Max", {count, number(b, b.type(x).element, 1)});
  return add(b, "Div", {sum, count});
}

std::vector<NodeValue> composeMaxUnpool(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0)), places = b.type(b.input(1));
  if (places.shape != x.shape)
    b.refuse("indices " + places.toString() + " do not fit input " + x.toString());
  const std::vector<int64_t> shape = smallestShape(b);
  NodeValue flat = reshaped(b, b.input(0), {x.elementCount()});
  NodeValue indices = reshaped(b, b.input(1), {x.elementCount()});
  NodeValue zeros = b.constant(Tensor::zeros({x.element, {product(shape)}}));
  NodeValue y = reshaped(b, put(b, zeros, indices, flat), shape);
  return {b.input(2) ? grown(b, y, knownIntegers(b, 2)) : y};
}

} // namespace

std::span<const ComposedOperator> unpoolForms() {
  static const ComposedOperator operators[] = {
      {{.name = "MaxUnpool",
        .firstOpset = 9,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {"I"}, {.name = "output_shape", .optional = true, .known = true}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeMaxUnpool},
  };
  return operators;
}

} // namespace pdc
