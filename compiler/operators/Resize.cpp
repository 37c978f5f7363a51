#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

/// Resize and Upsample, one dimension after the other: a choice of elements (nearest), or a product
/// with a constant matrix (linear, cubic).
namespace pdc {

namespace {

/// One dimension that changes.
struct Axis {
  int64_t dimension, from, to;
  double scale;
};

class Resizing {
public:
  explicit Resizing(CompositionBuilder &b)
      : b(b), mode(b.attributes().string("mode", "nearest")),
        coordinates(b.attributes().string("coordinate_transformation_mode", "half_pixel")),
        rounding(b.attributes().string("nearest_mode", "round_prefer_floor")),
        cubic(b.attributes().number("cubic_coeff_a", -0.75)),
        excludes(b.attributes().integer("exclude_outside", 0) != 0) {}

  NodeValue run() {
    NodeValue x = b.input(0);
    for (const Axis &axis : changedAxes())
      x = mode == "nearest" ? chosen(x, axis) : weighted(x, axis);
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

  std::vector<Axis> changedAxes() const {
    std::vector<int64_t> shape = b.type(b.input(0)).shape;
    const Tensor *scales = given(2), *sizes = given(3);
    const Tensor *factors = sizes ? sizes : scales;
    if (!factors || factors->data.size() != shape.size())
      b.refuse("scales or sizes must be given for each dimension of input " +
               b.type(b.input(0)).toString());
    std::vector<Axis> axes;
    for (size_t d = 0; d < shape.size(); ++d) {
      const double from = static_cast<double>(shape[d]), factor = factors->data[d];
      const double to = sizes ? factor : std::floor(from * factor);
      if (!(to >= 1 && to < 1 << 24))
        b.refuse("dimension " + std::to_string(d) + " would have " + std::to_string(to) + " elements");
      Axis axis{static_cast<int64_t>(d), shape[d], static_cast<int64_t>(to), sizes ? to / from : factor};
      if (axis.from != axis.to || axis.scale != 1)
        axes.push_back(axis);
    }
    return axes;
  }

  /// Where an element of the result lies in the operand.
  double source(const Axis &axis, int64_t position) const {
    const double i = static_cast<double>(position);
    if (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel")
      return coordinates != "half_pixel" && axis.to == 1 ? 0 : (i + 0.5) / axis.scale - 0.5;
    if (coordinates == "align_corners")
      return axis.to == 1 ? 0
                          : i * static_cast<double>(axis.from - 1) / static_cast<double>(axis.to - 1);
    if (coordinates == "asymmetric")
      return i / axis.scale;
    if (coordinates == "tf_half_pixel_for_nn")
      return (i + 0.5) / axis.scale;
    b.refuse("coordinate_transformation_mode '" + coordinates +
             "' is not supported; supported are half_pixel, pytorch_half_pixel, align_corners, "
             "asymmetric and tf_half_pixel_for_nn");
  }

  static int64_t inside(const Axis &axis, double position) {
    return std::clamp<int64_t>(static_cast<int64_t>(position), 0, axis.from - 1);
  }

  int64_t nearest(const Axis &axis, double position) const {
    if (rounding == "round_prefer_floor")
      return inside(axis, std::ceil(position - 0.5));
    if (rounding == "round_prefer_ceil")
      return inside(axis, std::floor(position + 0.5));
    return inside(axis, rounding == "ceil" ? std::ceil(position) : std::floor(position));
  }

  NodeValue chosen(NodeValue x, const Axis &axis) const {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < axis.to; ++i)
      places.push_back(nearest(axis, source(axis, i)));
    return add(b, "Gather", {x, b.constant(Tensor::vector(places))}, {{"axis", axis.dimension}});
  }

  /// The weight of a neighbour at a distance of up to 2.
  double weightAt(double distance) const {
    const double d = std::abs(distance), a = cubic;
    if (mode == "linear")
      return std::max(0.0, 1 - d);
    if (d <= 1)
      return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  Tensor matrix(const Axis &axis, ElementType element) const {
    Tensor weights = Tensor::zeros({element, {axis.to, axis.from}});
    for (int64_t i = 0; i < axis.to; ++i) {
      double position = source(axis, i), sum = 0;
      // A linear step beyond the border stays on it.
      if (mode == "linear")
        position = std::clamp(position, 0.0, static_cast<double>(axis.from - 1));
      double *row = &weights.data[i * axis.from];
      for (double place = std::floor(position) - 1; place <= std::floor(position) + 2; ++place) {
        bool isOutside = place < 0 || place > static_cast<double>(axis.from - 1);
        double weight = isOutside && excludes ? 0 : weightAt(position - place);
        row[inside(axis, place)] += weight;
        sum += weight;
      }
      for (int64_t k = 0; k < axis.from; ++k)
        row[k] /= sum;
    }
    return weights;
  }

  NodeValue weighted(NodeValue x, const Axis &axis) const {
    if (mode != "linear" && mode != "cubic")
      b.refuse("mode '" + mode + "' is not supported; supported are nearest, linear and cubic");
    TensorType type = b.type(x);
    const int64_t outer = product(type.shape, 0, axis.dimension);
    const int64_t inner = product(type.shape, axis.dimension + 1);
    NodeValue matrices = reshaped(b, x, {outer, axis.from, inner});
    NodeValue y = add(b, "MatMul", {b.constant(matrix(axis, type.element)), matrices});
    type.shape[axis.dimension] = axis.to;
    return reshaped(b, y, type.shape);
  }

  CompositionBuilder &b;
  std::string mode, coordinates, rounding;
  double cubic;
  bool excludes;
};

/// The form of opset 11: X, roi, scales, sizes.
void normaliseResize(ImportedNode &node, int opset) {
  if (opset < 11) {
    std::string scales = node.inputs.size() > 1 ? node.inputs[1] : "";
    node.inputs = {node.inputs.at(0), "", scales};
    node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
    node.attributes.set("nearest_mode", std::string("floor"));
  }
  for (const char *name : {"antialias", "axes"})
    if (node.attributes.has(name) && !(std::string_view(name) == "antialias" &&
                                       node.attributes.integer(name, 0) == 0))
      refuse(node, opset, "attribute '" + std::string(name) + "' is not supported");
  if (node.attributes.string("keep_aspect_ratio_policy", "stretch") != "stretch")
    refuse(node, opset, "attribute 'keep_aspect_ratio_policy' is not supported but 'stretch'");
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
