#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// Convolution of each channel with itself alone that sees what came before (ONNX
/// CausalConvWithState, opset 27), as state-space models have it.
namespace pdc {

static std::vector<NodeValue> composeCausalConvolution(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0)), weight = b.type(b.input(1));
  if (x.rank() != 3 || weight.shape.size() != 3 || weight.shape[0] != x.shape[1] ||
      weight.shape[1] != 1)
    b.refuse("input " + x.toString() + " and weight " + weight.toString() +
             ", expected [batch, channels, length] and [channels, 1, width]");
  const std::string activation = b.attributes().string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    b.refuse("activation '" + activation +
             "' is not supported; supported are none, silu and swish");
  const int64_t before = weight.shape[2] - 1;
  const std::vector<int64_t> past = {x.shape[0], x.shape[1], before};
  if (b.input(3) && b.type(b.input(3)).shape != past)
    b.refuse("past_state " + b.type(b.input(3)).toString() + ", expected " + shapeText(past));
  NodeValue padded;
  if (b.input(3) && before > 0)
    padded = add(b, "Concat", {b.input(3), b.input(0)}, {{"axis", int64_t(2)}});
  else
    padded = add(b, "Pad", {b.input(0), b.constant(Tensor::vector({0, 0, before, 0, 0, 0}))});
  std::vector<NodeValue> operands = {padded, b.input(1)};
  if (b.input(2))
    operands.push_back(b.input(2));
  NodeValue y =
      add(b, "Conv", operands,
          {{"group", x.shape[1]}, {"kernel_shape", std::vector<int64_t>{weight.shape[2]}}});
  if (activation != "none")
    y = add(b, "Mul", {y, add(b, "Sigmoid", {y})});
  NodeValue state =
      add(b, "Slice",
          {padded, b.constant(Tensor::vector({x.shape[2]})),
           b.constant(Tensor::vector({x.shape[2] + before})), b.constant(Tensor::vector({2}))});
  return {y, state};
}

std::span<const ComposedOperator> causalForms() {
  static const ComposedOperator operators[] = {
      {{.name = "CausalConvWithState",
        .firstOpset = 27,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}, {"weight"}, {"bias", true}, {"past_state", true}},
        .outputs = {{"output"}, {"present_state", true}},
        .elements = floatElements()},
       composeCausalConvolution},
  };
  return operators;
}

} // namespace pdc
