#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Window.h"

#include <algorithm>
#include <utility>

/// Forms of pooling that no kernel of a library has: windows with holes, means of windows that
/// reach beyond a padding that they count, and the places of the maxima as ONNX numbers them.
/// MaxPool's look at each window as a row, AveragePool's with holes are convolutions.
namespace pdc {

namespace {

/// Of a table with an entry for each window and tap: 128 MiB of numbers.
constexpr int64_t kMostEntries = int64_t(1) << 24;

Tensor wholeNumbers(std::vector<int64_t> shape, const std::vector<int64_t> &values) {
  Tensor tensor = Tensor::zeros({ElementType::i64, std::move(shape)});
  tensor.data.assign(values.begin(), values.end());
  return tensor;
}

Window windowOf(const CompositionBuilder &b) {
  return resolveWindow({"pooling", "", b.attributes(), {}, {}, 1}, b.type(b.input(0)).shape);
}

void checkTableSize(CompositionBuilder &b, const Window &window) {
  int64_t entries = 1;
  for (const std::vector<int64_t> &extents : {window.output, window.kernel})
    for (int64_t extent : extents) {
      if (extent > kMostEntries / entries)
        b.refuse("has " + shapeText(window.output) + " windows of " + shapeText(window.kernel) +
                 " elements, expected at most " + std::to_string(kMostEntries) +
                 " elements in all windows of a channel where it has dilations or a second "
                 "output; pool in smaller steps or without them");
      entries *= extent;
    }
}

/// The offsets of one window's elements within their channel. The first stands for those that lie
/// in the padding, where it changes no maximum.
std::vector<int64_t> pixelsOf(CompositionBuilder &b, const Window &window,
                              const std::vector<int64_t> &position,
                              const std::vector<int64_t> &input) {
  std::vector<int64_t> sources, tap(window.kernel.size());
  int64_t first = -1, source = 0;
  for (int64_t t = 0; t < product(window.kernel); ++t, advance(tap, window.kernel)) {
    const bool isInside = sourceOffset(window, position, tap, input, source);
    first = isInside && first < 0 ? source : first;
    sources.push_back(isInside ? source : -1);
  }
  if (first < 0)
    b.refuse("a window lies in the padding alone; use less padding");
  std::ranges::replace(sources, -1, first);
  return sources;
}

/// The input as [channels of all samples, pixels], and what each window sees of the pixels.
class Windows {
public:
  explicit Windows(CompositionBuilder &b) : b(b), input(b.type(b.input(0)).shape) {
    const Window window = windowOf(b);
    checkTableSize(b, window);
    output = {input[0], input[1]};
    output.insert(output.end(), window.output.begin(), window.output.end());
    taps = product(window.kernel);
    std::vector<int64_t> position(window.output.size());
    for (int64_t o = 0; o < product(window.output); ++o, advance(position, window.output)) {
      std::vector<int64_t> seen = pixelsOf(b, window, position, input);
      sources.insert(sources.end(), seen.begin(), seen.end());
    }
  }

  /// The pixel of each window's maximum, the first of equal ones: [channels, windows].
  NodeValue maxima() {
    NodeValue flat = reshaped(b, b.input(0), {channels(), pixels()});
    NodeValue rows = add(b, "Gather", {flat, b.constant(wholeNumbers({windows(), taps}, sources))},
                         {{"axis", int64_t(1)}});
    chosen = add(b, "ArgMax", {rows}, {{"axis", int64_t(2)}, {"keepdims", int64_t(0)}});
    chosen = add(b, "Add", {chosen, multiples(windows(), taps, {1, windows()})});
    return placesBy(sources);
  }

  /// Elements of the whole input at these places.
  NodeValue elementsAt(NodeValue places) {
    NodeValue flat = reshaped(b, b.input(0), {product(input)});
    return reshaped(b, add(b, "Gather", {flat, places}, {{"axis", int64_t(0)}}), output);
  }

  /// ONNX's numbers of the maxima, for which `maxima` was called.
  NodeValue indices() {
    std::vector<int64_t> numbers = sources;
    if (b.attributes().integer("storage_order", 0))
      for (int64_t &number : numbers)
        number = columnMajorOffset(number, input);
    return reshaped(b, placesBy(numbers), output);
  }

private:
  int64_t channels() const { return input[0] * input[1]; }
  int64_t pixels() const { return product(input, 2); }
  int64_t windows() const { return static_cast<int64_t>(sources.size()) / taps; }

  /// 0, step, 2 step, ...
  NodeValue multiples(int64_t count, int64_t step, std::vector<int64_t> shape) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(i * step);
    return b.constant(wholeNumbers(std::move(shape), values));
  }

  /// By a table of places within a channel, for each window and tap.
  NodeValue placesBy(const std::vector<int64_t> &table) {
    const int64_t size = static_cast<int64_t>(table.size());
    NodeValue within =
        add(b, "Gather", {b.constant(wholeNumbers({size}, table)), chosen}, {{"axis", int64_t(0)}});
    return add(b, "Add", {within, multiples(channels(), pixels(), {channels(), 1})});
  }

  CompositionBuilder &b;
  std::vector<int64_t> input, output, sources;
  int64_t taps = 1;
  NodeValue chosen; ///< [channels, windows]: which row of the table, counted over all windows
};

/// Without holes the kernel of MaxPool makes the maxima, and their gradient.
std::vector<NodeValue> composeMaxPool(CompositionBuilder &b) {
  const bool hasHoles = windowOf(b).hasHoles();
  if (!hasHoles && !b.attributes().integer("indices", 0))
    return {};
  Windows windows(b);
  const NodeValue maxima = windows.maxima();
  if (hasHoles)
    return {windows.elementsAt(maxima), windows.indices()};
  Attributes plain = b.attributes();
  plain.erase("indices");
  return {b.node("MaxPool", {b.input(0)}, std::move(plain), 2).front(), windows.indices()};
}

/// What each window of a channel counts: [1, 1, windows...].
Tensor divisorsOf(const CompositionBuilder &b, const Window &window) {
  const TensorType x = b.type(b.input(0));
  std::vector<int64_t> shape = window.output;
  shape.insert(shape.begin(), 2, 1);
  Tensor divisors = Tensor::zeros({x.element, shape});
  divisors.data = averageDivisors({"AveragePool", "", b.attributes(), {}, {}, 1}, window, x.shape);
  return divisors;
}

/// A partial last window of ceil_mode needs more padding than the attribute says.
std::vector<int64_t> padsOfAll(const Window &window, const std::vector<int64_t> &input) {
  std::vector<int64_t> pads = window.padsBegin;
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    const int64_t last = window.source(d, window.output[d] - 1, window.kernel[d] - 1);
    pads.push_back(std::max(window.padsEnd[d], last + 1 - input[d + 2]));
  }
  return pads;
}

/// Of a window that reaches beyond the padding, what lies there does not count, but the padding
/// does: the mean over whole windows, times how many those count for each that this one does.
std::vector<NodeValue> composeBeyondPadding(CompositionBuilder &b, const Window &window) {
  const std::vector<int64_t> pads = padsOfAll(window, b.type(b.input(0)).shape);
  std::vector<int64_t> told = window.padsBegin;
  told.insert(told.end(), window.padsEnd.begin(), window.padsEnd.end());
  const bool hasPads = std::ranges::any_of(told, [](int64_t pad) { return pad > 0; });
  if (!b.attributes().integer("count_include_pad", 0) || !hasPads || pads == told)
    return {};
  Tensor factors = divisorsOf(b, window);
  for (double &factor : factors.data)
    factor = static_cast<double>(product(window.kernel)) / factor;
  NodeValue means = add(b, "AveragePool", {b.input(0)},
                        {{"kernel_shape", window.kernel},
                         {"strides", window.strides},
                         {"pads", pads},
                         {"count_include_pad", int64_t(1)}});
  return {add(b, "Mul", {means, b.constant(std::move(factors))})};
}

/// The sum of each window, by a convolution of each channel with ones, over how many it counts.
std::vector<NodeValue> composeAveragePool(CompositionBuilder &b) {
  const Window window = windowOf(b);
  if (!window.hasHoles())
    return composeBeyondPadding(b, window);
  const TensorType x = b.type(b.input(0));
  std::vector<int64_t> single = x.shape, kernel = window.kernel;
  const std::vector<int64_t> pads = padsOfAll(window, x.shape);
  std::vector<int64_t> pooled = {x.shape[0], x.shape[1]};
  single[0] *= std::exchange(single[1], 1);
  pooled.insert(pooled.end(), window.output.begin(), window.output.end());
  kernel.insert(kernel.begin(), 2, 1);
  Tensor ones = Tensor::zeros({x.element, kernel}), divisors = divisorsOf(b, window);
  std::ranges::fill(ones.data, 1);
  NodeValue sums =
      add(b, "Conv", {reshaped(b, b.input(0), single), b.constant(std::move(ones))},
          {{"strides", window.strides}, {"dilations", window.dilations}, {"pads", pads}});
  return {add(b, "Div", {reshaped(b, sums, pooled), b.constant(std::move(divisors))})};
}

} // namespace

std::span<const ComposedForm> poolingForms() {
  static const ComposedForm forms[] = {{"AveragePool", composeAveragePool},
                                       {"MaxPool", composeMaxPool}};
  return forms;
}

} // namespace pdc
