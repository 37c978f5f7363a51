#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

namespace pdc {

/// The attributes of the convolution whose input gradient this is.
static Attributes transposedWindow(CompositionBuilder &b) {
  std::vector<int64_t> x = b.type(b.input(0)).shape, w = b.type(b.input(1)).shape;
  const size_t rank = x.size() - 2;
  auto list = [&](const char *name, size_t size, int64_t otherwise) {
    std::vector<int64_t> values = b.attributes().integers(name);
    return values.size() == size ? values : std::vector<int64_t>(size, otherwise);
  };
  std::vector<int64_t> strides = list("strides", rank, 1), dilations = list("dilations", rank, 1);
  std::vector<int64_t> pads = list("pads", 2 * rank, 0), more = list("output_padding", rank, 0);
  std::vector<int64_t> wanted = b.attributes().integers("output_shape");
  std::string mode = b.attributes().string("auto_pad", "NOTSET");
  const int64_t group = b.attributes().integer("group", 1);
  std::vector<int64_t> output = {x[0], w[1] * group};
  for (size_t d = 0; d < rank; ++d) {
    int64_t whole = strides[d] * (x[d + 2] - 1) + more[d] + (w[d + 2] - 1) * dilations[d] + 1;
    bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (isSame || wanted.size() >= rank) {
      int64_t size = wanted.size() >= rank ? wanted[wanted.size() - rank + d] : x[d + 2] * strides[d];
      int64_t total = std::max<int64_t>(0, whole - size), less = total / 2;
      pads[d] = mode == "SAME_UPPER" ? less : total - less;
      pads[d + rank] = total - pads[d];
      whole = std::max(whole, size);
    }
    output.push_back(whole - pads[d] - pads[d + rank]);
  }
  return {{"dilations", dilations}, {"group", group},
          {"input_shape", output},  {"kernel_shape", std::vector<int64_t>(w.begin() + 2, w.end())},
          {"pads", pads},           {"strides", strides}};
}

static std::vector<NodeValue> composeConvTranspose(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0)), w = b.type(b.input(1));
  if (x.rank() < 3 || w.rank() != x.rank() || w.shape[0] != x.shape[1])
    b.refuse("input " + x.toString() + " does not fit weight " + w.toString());
  NodeValue y = add(b, "ConvInputGrad", {b.input(0), b.input(1)}, transposedWindow(b));
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
