#pragma once

#include "compiler/operators/Operator.h"

/// What the rules of the operator families share: refusals, axes, indices, gradient steps.
namespace pdc {

/// Opsets of ONNX that are read.
inline constexpr int kFirstOpset = 7;
inline constexpr int kLastOpset = 28;

[[noreturn]] void refuse(const NodeView &node, const std::string &what);
[[noreturn]] void refuse(const ImportedNode &node, int opset, const std::string &what);

/// As in "[1,2]".
std::string shapeText(const std::vector<int64_t> &shape);

/// f32, f64, f16, bf16.
std::vector<ElementType> floatElements();

/// And i32, i64.
std::vector<ElementType> numberElements();

/// What sums over floating-point elements, and statistics of them, are kept in: 16 bits are too
/// few.
inline ElementType sumElement(ElementType element) {
  return bytesPerElement(element) == 2 ? ElementType::f32 : element;
}

/// The number that ONNX's attributes have for it.
int64_t onnxType(ElementType element);

/// The axis counted from 0; refuses one outside [-rank, rank).
int64_t axisFromStart(const NodeView &node, int64_t axis, int64_t rank);
std::vector<int64_t> axesFromStart(const NodeView &node, std::vector<int64_t> axes, int64_t rank);

/// Dimension d of a Transpose's result is dimension [d] of its operand; left out, they are
/// reversed.
std::vector<int64_t> permutationOf(const NodeView &node);

/// The value of an input that must be known at compile time, such as a shape.
std::vector<int64_t> knownIntegers(const NodeView &node, size_t input);

/// Row-major strides, in elements.
std::vector<int64_t> stridesOf(const std::vector<int64_t> &shape);
int64_t product(const std::vector<int64_t> &values, size_t first = 0, size_t last = SIZE_MAX);

/// Advances a row-major index; false after the last one.
bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &shape);
int64_t offsetOf(const std::vector<int64_t> &index, const std::vector<int64_t> &strides);

/// NumPy's broadcasting of two shapes; refuses what does not fit.
std::vector<int64_t> broadcastShape(const NodeView &node, const std::vector<int64_t> &a,
                                    const std::vector<int64_t> &b);
/// Strides of `shape` seen from the broadcast shape `to`: 0 along broadcast dimensions.
std::vector<int64_t> broadcastStrides(const std::vector<int64_t> &shape,
                                      const std::vector<int64_t> &to);

/// Output types by the shape rule, with every operand's value known.
std::vector<TensorType> typesFrom(const NodeView &node, std::span<const Tensor *const> inputs);

/// One output like input 0, and the value of input 0 under output 0's type.
std::vector<TensorType> inferLikeFirst(const NodeView &node);
std::vector<Tensor> evaluateAsView(const NodeView &node, std::span<const Tensor *const> inputs);

/// The first result of a new backward node.
GradientValue add(GradientBuilder &builder, std::string_view op, std::vector<GradientValue> inputs,
                  Attributes attributes = {});
/// The same elements under another shape.
GradientValue reshaped(GradientBuilder &builder, GradientValue value,
                       const std::vector<int64_t> &shape);
/// Sums the gradient of a broadcast operand back to that operand's shape.
GradientValue reducedTo(GradientBuilder &builder, GradientValue gradient,
                        const std::vector<int64_t> &shape);
/// The gradient of input 0 of a view or other shape change: the gradient under input 0's shape.
void differentiateAsView(GradientBuilder &builder);

/// Moves an attribute that newer opsets have as an input there: `axes`, `pads`, ...
void attributeToInput(ImportedNode &node, std::string_view attribute, size_t input);
/// Reductions have their axes as input 1 since opset 18 (ReduceSum since 13).
void normaliseReduction(ImportedNode &node, int opset);
/// Puts a name at an input position, filling positions before it as left out.
void setInput(ImportedNode &node, size_t input, std::string name);

} // namespace pdc
