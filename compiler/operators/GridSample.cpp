#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <numeric>

/// GridSample: rows of channels gathered around computed positions, and their weighted sum, which
/// is how gradients go back to both the image and the grid.
namespace pdc {

namespace {

/// What one dimension gives to a sample: the position of a neighbour (int64, inside the image) and
/// its weight. The weight is null where it is 1.
struct Tap {
  NodeValue place, weight;
};

class GridSampling {
public:
  explicit GridSampling(CompositionBuilder &b)
      : b(b), image(b.type(b.input(0))), grid(b.type(b.input(1))),
        mode(b.attributes().string("mode", "linear")),
        padding(b.attributes().string("padding_mode", "zeros")),
        alignsCorners(b.attributes().integer("align_corners", 0) != 0) {
    check();
  }

  /// [samples, channels, ...] as rows of channels, one for each pixel of each sample.
  NodeValue run() {
    const int64_t rank = image.rank(), channels = image.shape[1];
    std::vector<int64_t> toRows(rank), toImage(rank);
    std::iota(toRows.begin(), toRows.end(), 0);
    toImage = toRows;
    std::rotate(toRows.begin() + 1, toRows.begin() + 2, toRows.end());
    std::rotate(toImage.begin() + 1, toImage.end() - 1, toImage.end());
    rows =
        reshaped(b, transposed(b, b.input(0), toRows), {image.elementCount() / channels, channels});
    findTaps();
    NodeValue sum = sampled(0, firstPixels(), NodeValue());
    return transposed(b, sum, toImage);
  }

private:
  int64_t spatial() const { return image.rank() - 2; }
  int64_t size(int64_t d) const { return image.shape[2 + d]; }

  void check() const {
    const bool fits = image.rank() > 2 && grid.rank() == image.rank() &&
                      grid.shape[0] == image.shape[0] && grid.shape.back() == spatial();
    if (!fits)
      b.refuse("grid " + grid.toString() + " does not fit input " + image.toString() +
               ": expected one position of " + std::to_string(spatial()) + " numbers per sample");
    if (mode != "linear" && mode != "nearest" && mode != "cubic")
      b.refuse("mode '" + mode + "' is not supported; supported are linear, nearest and cubic");
    if (padding != "zeros" && padding != "border" && padding != "reflection")
      b.refuse("padding_mode '" + padding +
               "' is not supported; supported are zeros, border and reflection");
  }

  NodeValue of(double value) { return number(b, grid.element, value); }
  NodeValue plus(NodeValue x, double value) { return add(b, "Add", {x, of(value)}); }
  NodeValue times(NodeValue x, double value) { return add(b, "Mul", {x, of(value)}); }

  /// The grid counts from -1 to 1, its last number along the last dimension.
  NodeValue positionAlong(int64_t d) {
    NodeValue at =
        b.constant(Tensor::scalar(ElementType::i64, static_cast<double>(spatial() - 1 - d)));
    NodeValue x = add(b, "Gather", {b.input(1), at}, {{"axis", grid.rank() - 1}});
    const double extent = static_cast<double>(size(d));
    return alignsCorners ? times(plus(x, 1), (extent - 1) / 2)
                         : plus(times(plus(x, 1), extent / 2), -0.5);
  }

  /// Mirrored at the borders (the centres of the outer pixels, or their outer sides) until it is
  /// between them. What is between them already is left as it is, to the bit where no half is added
  /// to it: where neighbours change, at whole numbers, rounding would choose others.
  NodeValue reflected(NodeValue x, int64_t d) {
    const double low = alignsCorners ? 0 : -0.5;
    const double span = static_cast<double>(size(d)) - (alignsCorners ? 1 : 0);
    if (span == 0)
      return times(x, 0);
    NodeValue there = add(b, "Abs", {low == 0 ? x : plus(x, -low)});
    NodeValue turns = add(b, "Floor", {add(b, "Div", {there, of(2 * span)})});
    NodeValue within = add(b, "Sub", {there, times(turns, 2 * span)});
    NodeValue back = plus(add(b, "Neg", {within}), 2 * span);
    NodeValue mirrored = add(b, "Min", {within, back});
    return clipped(low == 0 ? mirrored : plus(mirrored, low), d);
  }

  /// The borders count as outside: a sample at one of them does not move with its position, which
  /// is how PyTorch differentiates it. What is no number is at the first pixel.
  NodeValue clipped(NodeValue x, int64_t d) {
    NodeValue first = of(0), last = of(static_cast<double>(size(d) - 1));
    NodeValue below = add(b, "Where", {add(b, "Less", {x, last}), x, last});
    return add(b, "Where", {add(b, "Greater", {x, first}), below, first});
  }

  NodeValue inside(NodeValue x, int64_t d) {
    if (padding == "zeros")
      return x;
    return padding == "border" ? clipped(x, d) : reflected(x, d);
  }

  /// A whole number as a place in the image; what lies outside weighs nothing.
  Tap tapAt(NodeValue position, NodeValue weight, int64_t d) {
    const double last = static_cast<double>(size(d) - 1);
    NodeValue isInside = add(
        b, "And",
        {add(b, "GreaterOrEqual", {position, of(0)}), add(b, "LessOrEqual", {position, of(last)})});
    NodeValue mask = add(b, "Cast", {isInside}, {{"to", onnxType(grid.element)}});
    // A grid of few bits rounds the last place.
    NodeValue place = add(b, "Cast", {clipped(position, d)}, {{"to", onnxType(ElementType::i64)}});
    place = add(b, "Min", {place, number(b, ElementType::i64, last)});
    return {place, weight ? add(b, "Mul", {weight, mask}) : mask};
  }

  /// The weight of a neighbour at a distance, of cubic convolution with the factor that PyTorch
  /// has.
  NodeValue cubicWeight(NodeValue distance, bool isNear) {
    constexpr double a = -0.75;
    NodeValue d = distance;
    if (isNear) // ((a + 2) d - (a + 3)) d^2 + 1
      return plus(add(b, "Mul", {add(b, "Mul", {plus(times(d, a + 2), -(a + 3)), d}), d}), 1);
    NodeValue inner = plus(add(b, "Mul", {plus(times(d, a), -5 * a), d}), 8 * a);
    return plus(add(b, "Mul", {inner, d}), -4 * a);
  }

  std::vector<Tap> tapsAlong(int64_t d) {
    NodeValue x = positionAlong(d);
    if (mode == "nearest")
      return {tapAt(add(b, "Round", {inside(x, d)}), NodeValue(), d)};
    if (mode == "linear")
      x = inside(x, d);
    NodeValue first = add(b, "Floor", {x}), part = add(b, "Sub", {x, first});
    NodeValue rest = plus(add(b, "Neg", {part}), 1);
    if (mode == "linear")
      return {tapAt(first, rest, d), tapAt(plus(first, 1), part, d)};
    const NodeValue weights[] = {cubicWeight(plus(part, 1), false), cubicWeight(part, true),
                                 cubicWeight(rest, true), cubicWeight(plus(rest, 1), false)};
    std::vector<Tap> taps;
    for (int64_t k = 0; k < 4; ++k)
      taps.push_back(tapAt(inside(plus(first, static_cast<double>(k - 1)), d), weights[k], d));
    return taps;
  }

  void findTaps() {
    for (int64_t d = 0; d < spatial(); ++d)
      taps.push_back(tapsAlong(d));
  }

  /// Row of each sample's first pixel: [samples, 1, ...].
  NodeValue firstPixels() {
    std::vector<int64_t> shape(static_cast<size_t>(spatial()) + 1, 1);
    shape[0] = image.shape[0];
    Tensor starts = Tensor::zeros({ElementType::i64, shape});
    for (int64_t n = 0; n < shape[0]; ++n)
      starts.data[n] = static_cast<double>(n * product(image.shape, 2));
    return b.constant(std::move(starts));
  }

  /// The sum over the taps of dimension d and those behind it.
  NodeValue sampled(int64_t d, NodeValue place, NodeValue weight) {
    if (d == spatial()) {
      std::vector<int64_t> shape(grid.shape.begin(), grid.shape.end() - 1);
      shape.push_back(1);
      NodeValue pixels = add(b, "Gather", {rows, place}, {{"axis", int64_t(0)}});
      return add(b, "Mul", {pixels, reshaped(b, weight, shape)});
    }
    std::vector<NodeValue> terms;
    const double stride = static_cast<double>(product(image.shape, static_cast<size_t>(3 + d)));
    for (const Tap &tap : taps[static_cast<size_t>(d)]) {
      NodeValue moved = add(b, "Mul", {tap.place, number(b, ElementType::i64, stride)});
      terms.push_back(sampled(d + 1, add(b, "Add", {place, moved}),
                              weight ? add(b, "Mul", {weight, tap.weight}) : tap.weight));
    }
    return terms.size() == 1 ? terms[0] : add(b, "Sum", terms);
  }

  CompositionBuilder &b;
  TensorType image, grid;
  std::string mode, padding;
  bool alignsCorners;
  NodeValue rows;
  std::vector<std::vector<Tap>> taps; ///< of each spatial dimension
};

/// Before opset 20 of images alone, with other names.
void normaliseGridSample(ImportedNode &node, int opset) {
  const std::string mode = node.attributes.string("mode", "bilinear");
  if (opset < 20 || !node.attributes.has("mode"))
    node.attributes.set("mode", std::string(mode == "bilinear"  ? "linear"
                                            : mode == "bicubic" ? "cubic"
                                                                : mode));
}

std::vector<NodeValue> composeGridSample(CompositionBuilder &b) { return {GridSampling(b).run()}; }

/// Where each pixel of an image lies before the affine map theta: [batch, ..., x, y(, z)]. The
/// pixels' own places, from -1 to 1, are constants: [pixels, x, y(, z), 1].
std::vector<NodeValue> composeAffineGrid(CompositionBuilder &b) {
  const TensorType theta = b.type(b.input(0));
  const std::vector<int64_t> size = knownIntegers(b, 1);
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) ||
      theta.shape != std::vector<int64_t>{size[0], spatial, spatial + 1})
    b.refuse("theta " + theta.toString() + " for size " + shapeText(size) +
             ", expected [N, 2, 3] for [N, C, H, W], or [N, 3, 4] for [N, C, D, H, W]");
  const bool alignsCorners = b.attributes().integer("align_corners", 0) != 0;
  const std::vector<int64_t> sizes(size.begin() + 2, size.end());
  const int64_t pixels = product(sizes);
  Tensor places = Tensor::zeros({theta.element, {spatial + 1, pixels}});
  std::vector<int64_t> index(sizes.size());
  for (int64_t pixel = 0; pixel < pixels; ++pixel, advance(index, sizes)) {
    for (int64_t d = 0; d < spatial; ++d) {
      const double i = static_cast<double>(index[d]), count = static_cast<double>(sizes[d]);
      const double place = alignsCorners ? (count > 1 ? 2 * i / (count - 1) - 1 : -1)
                                         : (2 * i + 1) / count - 1;
      places.data[(spatial - 1 - d) * pixels + pixel] = place;
    }
    places.data[spatial * pixels + pixel] = 1;
  }
  NodeValue moved = add(b, "MatMul", {b.input(0), b.constant(std::move(places))});
  std::vector<int64_t> result = {size[0]};
  result.insert(result.end(), sizes.begin(), sizes.end());
  result.push_back(spatial);
  return {reshaped(b, transposed(b, moved, {0, 2, 1}), result)};
}

} // namespace

std::span<const ComposedOperator> gridForms() {
  static const ComposedOperator operators[] = {
      {{.name = "AffineGrid",
        .firstOpset = 20,
        .lastOpset = kLastOpset,
        .inputs = {{"theta"}, {.name = "size", .known = true}},
        .outputs = {{"grid"}},
        .elements = floatElements()},
       composeAffineGrid},
      {{.name = "GridSample",
        .firstOpset = 16,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {"grid"}},
        .outputs = {{"Y"}},
        .elements = floatElements(),
        .normalise = normaliseGridSample},
       composeGridSample},
  };
  return operators;
}

} // namespace pdc
