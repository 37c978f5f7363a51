#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <numeric>

/// Operators that a few nodes replace: ArgMin, CastLike, CenterCropPad, Clip by one bound, EyeLike,
/// GlobalMaxPool, Mean, Shrink, SwiGLU, Swish with an alpha.
namespace pdc {

static std::vector<NodeValue> composeArgMin(CompositionBuilder &b) {
  if (std::vector<NodeValue> places = composeIntegerArgMin(b); !places.empty())
    return places;
  return {add(b, "ArgMax", {add(b, "Neg", {b.input(0)})}, b.attributes())};
}

static std::vector<NodeValue> composeMean(CompositionBuilder &b) {
  std::vector<NodeValue> terms;
  for (size_t i = 0; i < b.inputCount(); ++i)
    terms.push_back(b.input(i));
  NodeValue sum = terms.size() == 1 ? terms[0] : add(b, "Sum", terms);
  NodeValue count = number(b, b.type(sum).element, static_cast<double>(terms.size()));
  return {add(b, "Div", {sum, count})};
}

static std::vector<NodeValue> composeGlobalMaxPool(CompositionBuilder &b) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(0, b.type(b.input(0)).rank() - 2)));
  std::iota(axes.begin(), axes.end(), 2);
  return {add(b, "ReduceMax", {b.input(0), b.constant(Tensor::vector(axes))},
              {{"keepdims", int64_t(1)}})};
}

static std::vector<NodeValue> composeCastLike(CompositionBuilder &b) {
  return {add(b, "Cast", {b.input(0)}, {{"to", onnxType(b.type(b.input(1)).element)}})};
}

static std::vector<NodeValue> composeEyeLike(CompositionBuilder &b) {
  TensorType type = b.type(b.input(0));
  if (type.rank() != 2)
    b.refuse("input " + type.toString() + ", expected a matrix");
  Tensor ones = Tensor::zeros({ElementType::f32, type.shape});
  const int64_t k = b.attributes().integer("k", 0);
  for (int64_t row = 0; row < type.shape[0]; ++row)
    if (int64_t column = row + k; column >= 0 && column < type.shape[1])
      ones.data[row * type.shape[1] + column] = 1;
  NodeValue eye = b.constant(std::move(ones));
  return {add(b, "Cast", {eye}, {{"to", b.attributes().integer("dtype", onnxType(type.element))}})};
}

/// x + bias outside of +-lambd, and 0 inside.
static std::vector<NodeValue> composeShrink(CompositionBuilder &b) {
  ElementType element = b.type(b.input(0)).element;
  const double bias = b.attributes().number("bias", 0), limit = b.attributes().number("lambd", 0.5);
  NodeValue x = b.input(0), above = add(b, "Greater", {x, number(b, element, limit)});
  NodeValue below = add(b, "Less", {x, number(b, element, -limit)});
  NodeValue lowered = add(b, "Sub", {x, number(b, element, bias)});
  NodeValue raised = add(b, "Add", {x, number(b, element, bias)});
  // Zero, but of what is no number.
  NodeValue inner = add(b, "Where", {below, raised, add(b, "Mul", {x, number(b, element, 0)})});
  return {add(b, "Where", {above, lowered, inner})};
}

static std::vector<NodeValue> composeOneSidedClip(CompositionBuilder &b) {
  NodeValue x = b.input(0), least = b.inputCount() > 1 ? b.input(1) : NodeValue(),
            most = b.inputCount() > 2 ? b.input(2) : NodeValue();
  for (size_t i : {1, 2})
    if (NodeValue bound = i < b.inputCount() ? b.input(i) : NodeValue();
        bound && (b.type(bound).elementCount() != 1 || b.type(bound).rank() > b.type(x).rank()))
      b.refuse(std::string(i == 1 ? "min " : "max ") + b.type(bound).toString() +
               ", expected one number; use the operators Max and Min where bounds differ");
  if (!least && !most)
    return {add(b, "Identity", {x})};
  return {least ? add(b, "AtLeast", {x, least}) : add(b, "AtMost", {x, most})};
}

/// The middle of each axis, or zeros around it; of an odd rest the end has one more.
static std::vector<NodeValue> composeCenterCropPad(CompositionBuilder &b) {
  const std::vector<int64_t> shape = b.type(b.input(0)).shape, wanted = knownIntegers(b, 1);
  const std::vector<int64_t> axes = namedAxes(b);
  if (axes.size() != wanted.size())
    b.refuse("shape " + shapeText(wanted) + " for " + std::to_string(axes.size()) + " axes");
  std::vector<int64_t> pads(2 * shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (wanted[i] < 1)
      b.refuse("gives axis " + std::to_string(axes[i]) + " of input " +
               b.type(b.input(0)).toString() + " " + std::to_string(wanted[i]) + " elements");
    const int64_t missing = wanted[i] - shape[axes[i]];
    pads[axes[i]] = missing / 2;
    pads[shape.size() + axes[i]] = missing - missing / 2;
  }
  return {add(b, "Pad", {b.input(0), b.constant(Tensor::vector(pads))})};
}

/// x sigmoid(alpha x), where the operator as it is has no alpha.
static std::vector<NodeValue> composeScaledSwish(CompositionBuilder &b) {
  const double alpha = b.attributes().number("alpha", 1);
  if (alpha == 1)
    return {};
  NodeValue scaled = add(b, "Mul", {b.input(0), number(b, b.type(b.input(0)).element, alpha)});
  return {add(b, "Mul", {b.input(0), add(b, "Sigmoid", {scaled})})};
}

static std::vector<NodeValue> composeSwiGlu(CompositionBuilder &b) {
  if (b.type(b.input(0)) != b.type(b.input(1)))
    b.refuse("gates " + b.type(b.input(1)).toString() + " by " + b.type(b.input(0)).toString() +
             ", expected the same type of both");
  return {add(b, "Mul", {add(b, "Swish", {b.input(0)}, b.attributes()), b.input(1)})};
}

std::span<const ComposedForm> swishForms() {
  static const ComposedForm forms[] = {{"Swish", composeScaledSwish}};
  return forms;
}

std::span<const ComposedOperator> shortForms() {
  static const ComposedOperator operators[] = {
      {{.name = "ArgMin",
        .firstOpset = 1,
        .lastOpset = kLastOpset,
        .inputs = {{"data"}},
        .outputs = {{"reduced"}},
        .elements = floatElements()},
       composeArgMin},
      {{.name = "CastLike",
        .firstOpset = 15,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}, {"target_type"}},
        .outputs = {{"output"}}},
       composeCastLike},
      {{.name = "CenterCropPad",
        .firstOpset = 18,
        .lastOpset = kLastOpset,
        .inputs = {{"input_data"}, {.name = "shape", .known = true}},
        .outputs = {{"output_data"}}},
       composeCenterCropPad},
      {{.name = "EyeLike",
        .firstOpset = 9,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}},
        .outputs = {{"output"}}},
       composeEyeLike},
      {{.name = "GlobalMaxPool",
        .firstOpset = 1,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeGlobalMaxPool},
      {{.name = "Mean",
        .firstOpset = 8,
        .lastOpset = kLastOpset,
        .inputs = {{"data", false, true}},
        .outputs = {{"mean"}},
        .elements = floatElements()},
       composeMean},
      {{.name = "OneSidedClip",
        .inputs = {{"input"}, {.name = "min", .optional = true}, {.name = "max", .optional = true}},
        .outputs = {{"output"}}},
       composeOneSidedClip},
      {{.name = "Shrink",
        .firstOpset = 9,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeShrink},
      {{.name = "SwiGLU",
        .firstOpset = 28,
        .lastOpset = kLastOpset,
        .inputs = {{"A"}, {"B"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeSwiGlu},
  };
  return operators;
}

} // namespace pdc
