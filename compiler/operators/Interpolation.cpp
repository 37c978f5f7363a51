#include "compiler/operators/Interpolation.h"

#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

namespace {

void expectOneOf(const CompositionBuilder &node, std::string_view attribute,
                 const std::string &found, std::initializer_list<std::string_view> names) {
  std::string list;
  for (std::string_view name : names) {
    if (found == name)
      return;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  node.refuse(std::string(attribute) + " '" + found + "' is not supported; supported are " + list);
}

int64_t inside(const ResizedAxis &axis, double position) {
  return static_cast<int64_t>(std::clamp(position, 0.0, static_cast<double>(axis.from - 1)));
}

} // namespace

Interpolation::Interpolation(const CompositionBuilder &node)
    : mode(node.attributes().string("mode", "nearest")),
      coordinates(node.attributes().string("coordinate_transformation_mode", "half_pixel")),
      rounding(node.attributes().string("nearest_mode", "round_prefer_floor")),
      cubic(node.attributes().number("cubic_coeff_a", -0.75)),
      excludes(node.attributes().integer("exclude_outside", 0) != 0),
      smooths(node.attributes().integer("antialias", 0) != 0) {
  expectOneOf(node, "mode", mode, {"nearest", "linear", "cubic"});
  expectOneOf(node, "coordinate_transformation_mode", coordinates,
              {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
               "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  expectOneOf(node, "nearest_mode", rounding,
              {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}

/// Where an element of the result lies on the axis.
double Interpolation::source(const ResizedAxis &axis, int64_t position) const {
  const double i = static_cast<double>(position), from = static_cast<double>(axis.from),
               to = static_cast<double>(axis.to), last = from - 1;
  if (coordinates == "align_corners")
    return axis.to == 1 ? 0 : i * last / (to - 1);
  if (coordinates == "asymmetric")
    return i / axis.scale;
  if (coordinates == "tf_half_pixel_for_nn")
    return (i + 0.5) / axis.scale;
  if (coordinates == "tf_crop_and_resize")
    return axis.to == 1 ? (axis.start + axis.end) * last / 2
                        : axis.start * last + i * (axis.end - axis.start) * last / (to - 1);
  if (coordinates == "pytorch_half_pixel" && axis.to == 1)
    return 0;
  // What a length that is no whole number leaves out is left out at both ends.
  const double leftOut = coordinates == "half_pixel_symmetric" ? (from - to / axis.scale) / 2 : 0;
  return leftOut + (i + 0.5) / axis.scale - 0.5;
}

int64_t Interpolation::nearest(const ResizedAxis &axis, double position) const {
  if (rounding == "round_prefer_floor")
    return inside(axis, std::ceil(position - 0.5));
  if (rounding == "round_prefer_ceil")
    return inside(axis, std::floor(position + 0.5));
  return inside(axis, rounding == "ceil" ? std::ceil(position) : std::floor(position));
}

std::vector<int64_t> Interpolation::places(const ResizedAxis &axis) const {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < axis.to; ++i)
    places.push_back(nearest(axis, source(axis, i)));
  return places;
}

/// The weight of a neighbour at a distance of up to 2.
double Interpolation::weightAt(double distance) const {
  const double d = std::abs(distance), a = cubic;
  if (mode == "linear")
    return std::max(0.0, 1 - d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Tensor Interpolation::matrix(const ResizedAxis &axis, ElementType element) const {
  Tensor weights = Tensor::zeros({element, {axis.to, axis.from}});
  // The filter is as wide as the elements that become one.
  const double shrunk = smooths ? std::min(1.0, axis.scale) : 1, width = 2 / shrunk,
               last = static_cast<double>(axis.from - 1);
  for (int64_t i = 0; i < axis.to; ++i) {
    double position = source(axis, i), sum = 0;
    // A linear step beyond the border stays on it, and so does what lies far from it.
    position = mode == "linear" && shrunk == 1
                   ? std::clamp(position, 0.0, last)
                   : std::clamp(position, -width - 1, last + width + 1);
    double *row = &weights.data[i * axis.from];
    for (double place = std::floor(position - width); place <= std::ceil(position + width);
         ++place) {
      bool isOutside = place < 0 || place > last;
      double weight = isOutside && excludes ? 0 : weightAt((position - place) * shrunk);
      row[inside(axis, place)] += weight;
      sum += weight;
    }
    for (int64_t k = 0; sum != 0 && k < axis.from; ++k)
      row[k] /= sum;
  }
  return weights;
}

Tensor Interpolation::onAxis(const ResizedAxis &axis) const {
  Tensor flags = Tensor::zeros({ElementType::boolean, {axis.to}});
  for (int64_t i = 0; i < axis.to; ++i) {
    const double position = source(axis, i);
    flags.data[i] = position >= 0 && position <= static_cast<double>(axis.from - 1);
  }
  return flags;
}

} // namespace pdc
