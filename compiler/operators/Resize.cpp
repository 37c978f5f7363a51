#include "compiler/operators/Interpolation.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

/// Resize and Upsample, one dimension after the other: a choice of elements (nearest), or a product
/// with a constant matrix (linear, cubic).
namespace pdc {

namespace {

class Resizing {
public:
  explicit Resizing(CompositionBuilder &b)
      : b(b), interpolation(b), shape(b.type(b.input(0)).shape) {}

  NodeValue run() {
    std::vector<ResizedAxis> axes = changedAxes();
    NodeValue x = repeated(b.input(0), axes);
    for (const ResizedAxis &axis : axes) {
      x = interpolation.isNearest() ? chosen(x, axis) : weighted(x, axis);
      if (interpolation.crops())
        x = extrapolated(x, axis);
    }
    return x;
  }

private:
  const Tensor *given(size_t input) const {
    const Tensor *value = b.input(input) ? b.known(b.input(input)) : nullptr;
    if (b.input(input) && !value)
      b.refuse("input " + std::to_string(input) +
               " must be known at compile time, but it depends on data; export with fixed shapes");
    return value && !value->data.empty() ? value : nullptr;
  }

  std::vector<ResizedAxis> changedAxes() const {
    const std::vector<int64_t> dimensions = namedAxes(b);
    const Tensor *scales = given(2), *sizes = given(3);
    const Tensor *factors = sizes ? sizes : scales;
    if (!factors || factors->data.size() != dimensions.size())
      b.refuse("scales or sizes must be given for each of " + std::to_string(dimensions.size()) +
               " dimensions of input " + b.type(b.input(0)).toString());
    const std::optional<double> shared = sizes ? sharedScale(*sizes, dimensions) : std::nullopt;
    const Tensor *region = interpolation.crops() ? given(1) : nullptr;
    if (interpolation.crops() && (!region || region->data.size() != 2 * dimensions.size()))
      b.refuse(
          "tf_crop_and_resize needs input 1: where each dimension starts, then where each ends");
    std::vector<ResizedAxis> axes;
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const double from = static_cast<double>(shape[dimensions[i]]);
      ResizedAxis axis{dimensions[i], shape[dimensions[i]], 0, shared.value_or(factors->data[i])};
      if (sizes && !shared)
        axis.scale /= from;
      if (region)
        axis.start = region->data[i], axis.end = region->data[i + dimensions.size()];
      const double to = shared  ? std::floor(from * *shared + 0.5)
                        : sizes ? sizes->data[i]
                                : std::floor(from * (axis.end - axis.start) * axis.scale);
      if (!(axis.scale >= 0x1p-24 && axis.scale <= 0x1p24 && std::abs(axis.start) < 1 << 24 &&
            std::abs(axis.end) < 1 << 24))
        b.refuse("dimension " + std::to_string(axis.dimension) + " has scale " +
                 std::to_string(axis.scale) + " and region " + std::to_string(axis.start) + " to " +
                 std::to_string(axis.end) + ", expected numbers below 2^24");
      if (!(to >= 1 && to < 1 << 24))
        b.refuse("dimension " + std::to_string(axis.dimension) + " would have " +
                 std::to_string(to) + " elements");
      axis.to = static_cast<int64_t>(to);
      if (axis.from != axis.to || axis.scale != 1 || axis.start != 0 || axis.end != 1)
        axes.push_back(axis);
    }
    return axes;
  }

  /// The one of all dimensions, where the sizes are only bounds for a result of the same aspect.
  std::optional<double> sharedScale(const Tensor &sizes,
                                    const std::vector<int64_t> &dimensions) const {
    const std::string policy = b.attributes().string("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch")
      return std::nullopt;
    if (policy != "not_larger" && policy != "not_smaller")
      b.refuse("keep_aspect_ratio_policy '" + policy +
               "' is not supported; supported are stretch, not_larger and not_smaller");
    std::vector<double> scales;
    for (size_t i = 0; i < dimensions.size(); ++i)
      scales.push_back(sizes.data[i] / static_cast<double>(shape[dimensions[i]]));
    return policy == "not_larger" ? *std::ranges::min_element(scales)
                                  : *std::ranges::max_element(scales);
  }

  /// How often an axis has each of its elements, next to one another; 1 where it has another order.
  int64_t repetitionsOf(const ResizedAxis &axis) const {
    const int64_t times = axis.from > 0 ? axis.to / axis.from : 0;
    if (!interpolation.isNearest() || interpolation.crops() || times < 2 ||
        times * axis.from != axis.to)
      return 1;
    const std::vector<int64_t> places = interpolation.places(axis);
    for (int64_t i = 0; i < axis.to; ++i)
      if (places[static_cast<size_t>(i)] != i / times)
        return 1;
    return times;
  }

  /// Takes the axes out that repeat their elements: all at once, and their gradient is one sum.
  NodeValue repeated(NodeValue x, std::vector<ResizedAxis> &axes) const {
    std::vector<int64_t> times(shape.size(), 1), apart, whole, result;
    for (const ResizedAxis &axis : axes)
      times[static_cast<size_t>(axis.dimension)] = repetitionsOf(axis);
    for (size_t d = 0; d < shape.size(); ++d) {
      apart.push_back(shape[d]), whole.push_back(shape[d]), result.push_back(shape[d] * times[d]);
      if (times[d] > 1)
        apart.push_back(1), whole.push_back(times[d]);
    }
    if (result == shape)
      return x;
    std::erase_if(axes, [&](const ResizedAxis &axis) {
      return times[static_cast<size_t>(axis.dimension)] > 1;
    });
    return reshaped(b, add(b, "Expand", {reshaped(b, x, apart), b.constant(Tensor::vector(whole))}),
                    result);
  }

  NodeValue chosen(NodeValue x, const ResizedAxis &axis) const {
    return add(b, "Gather", {x, b.constant(Tensor::vector(interpolation.places(axis)))},
               {{"axis", axis.dimension}});
  }

  /// Along the last axis one product of all rows, along others one for each slice before the axis.
  NodeValue weighted(NodeValue x, const ResizedAxis &axis) const {
    TensorType type = b.type(x);
    const int64_t outer = product(type.shape, 0, axis.dimension);
    const int64_t inner = product(type.shape, axis.dimension + 1);
    type.shape[axis.dimension] = axis.to;
    const Tensor weights = interpolation.matrix(axis, type.element);
    NodeValue y =
        inner == 1
            ? add(b, "MatMul",
                  {reshaped(b, x, {outer, axis.from}), b.constant(transposed(weights))})
            : add(b, "MatMul", {b.constant(weights), reshaped(b, x, {outer, axis.from, inner})});
    return reshaped(b, y, type.shape);
  }

  static Tensor transposed(const Tensor &matrix) {
    const int64_t rows = matrix.type.shape[0], columns = matrix.type.shape[1];
    Tensor result = Tensor::zeros({matrix.type.element, {columns, rows}});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        result.data[static_cast<size_t>(c * rows + r)] =
            matrix.data[static_cast<size_t>(r * columns + c)];
    return result;
  }

  /// The weights of what follows add up to 1, so that the value stays what it is.
  NodeValue extrapolated(NodeValue x, const ResizedAxis &axis) const {
    Tensor flags = interpolation.onAxis(axis);
    if (std::ranges::count(flags.data, 0) == 0)
      return x;
    const TensorType type = b.type(x);
    flags.type.shape.assign(type.shape.size(), 1);
    flags.type.shape[axis.dimension] = axis.to;
    return add(b, "Where",
               {b.constant(flags), x,
                number(b, type.element, b.attributes().number("extrapolation_value", 0))});
  }

  CompositionBuilder &b;
  Interpolation interpolation;
  std::vector<int64_t> shape;
};

/// The form of opset 11: X, roi, scales, sizes.
void normaliseResize(ImportedNode &node, int opset) {
  if (opset < 11) {
    std::string scales = node.inputs.size() > 1 ? node.inputs[1] : "";
    node.inputs = {node.inputs.at(0), "", scales};
    node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
    node.attributes.set("nearest_mode", std::string("floor"));
  }
}

void normaliseUpsample(ImportedNode &node, int opset) {
  node.op = "Resize";
  normaliseResize(node, opset);
}

std::vector<NodeValue> composeResize(CompositionBuilder &b) { return {Resizing(b).run()}; }

} // namespace

std::span<const ComposedOperator> resizeForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Resize",
        .firstOpset = 10,
        .lastOpset = kLastOpset,
        .inputs = {{"X"},
                   {.name = "roi", .optional = true, .known = true},
                   {.name = "scales", .optional = true, .known = true},
                   {.name = "sizes", .optional = true, .known = true}},
        .outputs = {{"Y"}},
        .elements = floatElements(),
        .normalise = normaliseResize},
       composeResize},
      {{.name = "Upsample",
        .firstOpset = 9,
        .lastOpset = 9,
        .inputs = {{"X"}, {.name = "scales", .known = true}},
        .outputs = {{"Y"}},
        .elements = floatElements(),
        .normalise = normaliseUpsample},
       composeResize},
  };
  return operators;
}

} // namespace pdc
