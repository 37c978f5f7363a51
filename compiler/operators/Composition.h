#pragma once

#include "compiler/operators/Operator.h"

#include <optional>

/// Operators that are others in another form: they are written as nodes of these, and need neither
/// rules nor a gradient nor kernels of their own. infer-shapes puts the nodes in their place.
namespace pdc {

/// A value inside the graph; null means "left out".
using NodeValue = GradientValue;

/// A node that others are composed with.
struct ValueMaker {
  std::string op;
  std::vector<NodeValue> inputs;
  Attributes attributes;
};

/// How a composition reads its node and adds others. Implemented by the pass infer-shapes, by what
/// infers types without a graph, and by the tests.
class CompositionBuilder {
public:
  virtual ~CompositionBuilder() = default;
  virtual const Attributes &attributes() const = 0;
  virtual size_t inputCount() const = 0;
  /// Null when it is left out.
  virtual NodeValue input(size_t i) const = 0;
  virtual TensorType type(NodeValue value) const = 0;
  /// The value where it is known at compile time; else null.
  virtual const Tensor *known(NodeValue value) const = 0;
  /// What makes the value; nothing where no node does, or nobody knows.
  virtual std::optional<ValueMaker> maker(NodeValue) const { return std::nullopt; }
  /// Adds a node; result types follow from its operator's shape rule. An input may be null.
  virtual std::vector<NodeValue> node(std::string_view op, std::vector<NodeValue> inputs,
                                      Attributes attributes = {}, size_t outputs = 1) = 0;
  virtual NodeValue constant(Tensor value) = 0;
  /// The node, as messages name it.
  virtual std::string describe() const = 0;
  [[noreturn]] void refuse(const std::string &what) const;
};

/// What an operator is composed of: gives a value for each of its outputs, or nothing where the node
/// has a form that stays as it is.
using Compose = std::vector<NodeValue> (*)(CompositionBuilder &builder);

struct ComposedOperator {
  /// Without rules, which follow from the parts; `evaluate` may be there for what refuses.
  Operator op;
  Compose compose;
};

/// An operator with rules of its own, of which some forms are composed.
struct ComposedForm {
  std::string_view op;
  Compose compose;
};

/// The values of a composed node whose operands are all known.
std::vector<Tensor> evaluateComposed(const NodeView &node, std::span<const Tensor *const> inputs);

/// Null for an operator that is never composed.
Compose findComposition(std::string_view op);

/// The first result of a new node.
NodeValue add(CompositionBuilder &builder, std::string_view op, std::vector<NodeValue> inputs,
              Attributes attributes = {});
/// The same elements under another shape.
NodeValue reshaped(CompositionBuilder &builder, NodeValue value, const std::vector<int64_t> &shape);
NodeValue transposed(CompositionBuilder &builder, NodeValue value,
                     const std::vector<int64_t> &order);
/// A number that any tensor of this element type is combined with.
NodeValue number(CompositionBuilder &builder, ElementType element, double value);
/// The square root, which is flat at zero: a norm of zeros has a gradient of zeros there.
NodeValue rootOf(CompositionBuilder &builder, NodeValue square);
/// Rows along an axis, the first for which a flag holds in place of those for which none does.
NodeValue filledRows(CompositionBuilder &builder, NodeValue rows, NodeValue flags, int64_t axis);
/// A dimension of input 0, counted from the start; refuses one that it has not.
int64_t axisFromStart(const CompositionBuilder &builder, int64_t axis);
/// Attribute axes, of input 0, counted from the start: all where it is left out. Refuses one that is
/// named twice.
std::vector<int64_t> namedAxes(const CompositionBuilder &builder);
/// i64 of any shape.
Tensor integersOf(std::vector<int64_t> shape, const std::vector<int64_t> &values);
/// The integers of an input that must be known; throws Error.
std::vector<int64_t> knownIntegers(const CompositionBuilder &builder, size_t input);

/// ReduceMin and ArgMin of integers; nothing for other elements.
std::vector<NodeValue> composeIntegerMin(CompositionBuilder &builder);
std::vector<NodeValue> composeIntegerArgMin(CompositionBuilder &builder);

// One function per file that composes operators. A new file is added here and in Composition.cpp.
std::span<const ComposedOperator> reductionForms();
std::span<const ComposedOperator> rearrangements();
std::span<const ComposedOperator> indexingForms();
std::span<const ComposedOperator> normalisationForms();
std::span<const ComposedOperator> recurrentForms();
std::span<const ComposedOperator> einsumForms();
std::span<const ComposedOperator> shortForms();
std::span<const ComposedOperator> convTransposeForms();
std::span<const ComposedOperator> resizeForms();
std::span<const ComposedOperator> triangleForms();
std::span<const ComposedOperator> attentionForms();
std::span<const ComposedOperator> topForms();
std::span<const ComposedOperator> trainingForms();
std::span<const ComposedOperator> gridForms();
std::span<const ComposedOperator> lpPoolForms();
std::span<const ComposedOperator> unpoolForms();
std::span<const ComposedOperator> randomForms();
std::span<const ComposedOperator> bagForms();
std::span<const ComposedOperator> blockForms();
std::span<const ComposedOperator> fourierForms();
std::span<const ComposedOperator> maskedForms();
std::span<const ComposedOperator> selectedForms();
std::span<const ComposedOperator> cumulativeForms();
std::span<const ComposedOperator> causalForms();
std::span<const ComposedOperator> sampleStepForms();
std::span<const ComposedOperator> linearAttentionForms();
std::span<const ComposedForm> lossForms();
std::span<const ComposedForm> padForms();
std::span<const ComposedForm> poolingForms();
std::span<const ComposedForm> integerReductionForms();
std::span<const ComposedForm> matrixForms();
std::span<const ComposedForm> arithmeticForms();
std::span<const ComposedForm> alongAxisForms();
std::span<const ComposedForm> groupForms();
std::span<const ComposedForm> swishForms();
std::span<const ComposedForm> repetitionForms();

} // namespace pdc
