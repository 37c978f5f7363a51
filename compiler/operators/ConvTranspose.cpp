#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

/// The convolution whose input gradient this is.
struct TransposedWindow {
  Attributes attributes;
  /// How many zeros it makes behind X along each spatial dimension, where padding of the output
  /// makes room for whole strides.
  std::vector<int64_t> behind;
};

static TransposedWindow transposedWindow(CompositionBuilder &b) {
  std::vector<int64_t> x = b.type(b.input(0)).shape, w = b.type(b.input(1)).shape;
  const size_t rank = x.size() - 2;
  constexpr int64_t most = int64_t(1) << 31; // no sum below overflows
  auto list = [&](const char *name, size_t size, int64_t otherwise, int64_t least) {
    std::vector<int64_t> values = b.attributes().integers(name);
    if (values.empty())
      values.assign(size, otherwise);
    auto fits = [&](int64_t value) { return value >= least && value < most; };
    if (values.size() != size || !std::ranges::all_of(values, fits))
      b.refuse("attribute '" + std::string(name) + "' is " + shapeText(values) + ", expected " +
               std::to_string(size) + " numbers from " + std::to_string(least) + " on");
    return values;
  };
  const std::vector<int64_t> strides = list("strides", rank, 1, 1),
                             dilations = list("dilations", rank, 1, 1),
                             more = list("output_padding", rank, 0, 0);
  std::vector<int64_t> pads = list("pads", 2 * rank, 0, 0);
  std::vector<int64_t> wanted = b.attributes().integers("output_shape");
  std::string mode = b.attributes().string("auto_pad", "NOTSET");
  const int64_t group = b.attributes().integer("group", 1);
  std::vector<int64_t> output = {x[0], w[1] * group}, behind;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t reached = strides[d] * (x[d + 2] - 1) + (w[d + 2] - 1) * dilations[d] + 1;
    int64_t whole = reached + more[d];
    bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (isSame || wanted.size() >= rank) {
      int64_t size =
          wanted.size() >= rank ? wanted[wanted.size() - rank + d] : x[d + 2] * strides[d];
      int64_t total = std::max<int64_t>(0, whole - size), less = total / 2;
      pads[d] = mode == "SAME_UPPER" ? less : total - less;
      pads[d + rank] = total - pads[d];
      whole = std::max(whole, size);
    }
    output.push_back(whole - pads[d] - pads[d + rank]);
    behind.push_back((whole - reached) / strides[d]);
  }
  return {{{"dilations", dilations},
           {"group", group},
           {"input_shape", output},
           {"kernel_shape", std::vector<int64_t>(w.begin() + 2, w.end())},
           {"pads", pads},
           {"strides", strides}},
          behind};
}

static NodeValue zerosBehind(CompositionBuilder &b, NodeValue x,
                             const std::vector<int64_t> &counts) {
  if (std::ranges::all_of(counts, [](int64_t count) { return count == 0; }))
    return x;
  std::vector<int64_t> pads(counts.size() + 4, 0);
  pads.insert(pads.end(), counts.begin(), counts.end());
  return add(b, "Pad", {x, b.constant(Tensor::vector(pads))});
}

static std::vector<NodeValue> composeConvTranspose(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0)), w = b.type(b.input(1));
  if (x.rank() < 3 || w.rank() != x.rank() || w.shape[0] != x.shape[1])
    b.refuse("input " + x.toString() + " does not fit weight " + w.toString());
  TransposedWindow window = transposedWindow(b);
  NodeValue y = add(b, "ConvInputGrad", {zerosBehind(b, b.input(0), window.behind), b.input(1)},
                    std::move(window.attributes));
  if (!b.input(2))
    return {y};
  std::vector<int64_t> channels(x.shape.size(), 1);
  channels[1] = b.type(y).shape[1];
  return {add(b, "Add", {y, reshaped(b, b.input(2), channels)})};
}

std::span<const ComposedOperator> convTransposeForms() {
  static const ComposedOperator operators[] = {
      {{.name = "ConvTranspose",
        .firstOpset = 1,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {"W"}, {"B", true}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeConvTranspose},
  };
  return operators;
}

} // namespace pdc
