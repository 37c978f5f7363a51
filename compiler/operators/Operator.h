#pragma once

#include "compiler/Error.h"
#include "compiler/operators/Tensor.h"

#include <functional>
#include <optional>
#include <span>

namespace pdc {

/// What a rule may know of one node. An absent optional input has no type and no value.
struct NodeView {
  std::string_view op;
  std::string_view name;
  const Attributes &attributes;
  /// One entry per operand; nullptr where an optional input is left out.
  std::span<const TensorType *const> inputs;
  /// The operands whose value is known at compile time; nullptr elsewhere.
  std::span<const Tensor *const> constants;
  size_t outputCount = 1;

  bool hasInput(size_t i) const { return i < inputs.size() && inputs[i]; }
  const TensorType &input(size_t i) const;
  const Tensor *constant(size_t i) const { return i < constants.size() ? constants[i] : nullptr; }
};

/// A node as the importer read it, before its opset is forgotten. `normalise` brings it to the one
/// form that the rest of the compiler knows: the newest supported opset's.
struct ImportedNode {
  std::string op;
  std::string name;
  Attributes attributes;
  /// Names of tensors; empty where an optional input or output is left out.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  /// A new tensor holding this value; its name, to put into `inputs`.
  std::function<std::string(Tensor)> addConstant;
};

/// A value inside the graph that a gradient rule extends. Null means "no such value".
struct GradientValue {
  void *handle = nullptr;
  bool operator==(const GradientValue &) const = default;
  explicit operator bool() const { return handle; }
};

/// How a gradient rule reads the forward node and adds backward nodes. Implemented by the pass
/// `differentiate` and by the tests.
class GradientBuilder {
public:
  virtual ~GradientBuilder() = default;
  virtual const Attributes &attributes() const = 0;
  virtual size_t inputCount() const = 0;
  virtual size_t outputCount() const = 0;
  virtual GradientValue input(size_t i) const = 0;
  /// Output i; null when the node lacks it. `normalise` adds the outputs that gradients need.
  virtual GradientValue output(size_t i) const = 0;
  virtual TensorType type(GradientValue value) const = 0;
  /// The gradient that arrives at output i; null when none does.
  virtual GradientValue outputGradient(size_t i) const = 0;
  /// Whether anyone needs the gradient of input i.
  virtual bool wants(size_t i) const = 0;
  virtual void setInputGradient(size_t i, GradientValue gradient) = 0;
  /// Adds a backward node; result types follow from its operator's shape rule.
  virtual std::vector<GradientValue> node(std::string_view op, std::vector<GradientValue> inputs,
                                          Attributes attributes = {}, size_t outputs = 1) = 0;
  virtual GradientValue constant(Tensor value) = 0;
};

struct Cost {
  double flops = 0;
  /// Bytes read and written when every operand comes from memory once.
  double bytes = 0;
};

/// One parameter (input or output) of an operator, for checks and for the generated table.
struct Parameter {
  std::string_view name;
  bool optional = false;
  bool variadic = false;
  /// Its value must be known at compile time: a shape, axes. Kernels never read it.
  bool known = false;
};

/// The class decides what may be fused and how a node is planned.
enum class OperatorClass : uint8_t {
  elementwise, ///< one output element depends on the same element of each input (with broadcasting)
  view,        ///< same elements in the same order under another shape: never copies
  reduction,   ///< library call or loop that is the hero of its unit
  constant,    ///< disappears at compile time
};

/// Everything the compiler knows of one operator. Which kernel runs it is in compiler/devices.
struct Operator {
  std::string_view name;
  /// ONNX operator set versions accepted at import; 0,0 for operators that only the compiler makes.
  int firstOpset = 0;
  int lastOpset = 0;
  OperatorClass kind = OperatorClass::reduction;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  /// Element types of input 0 that are supported; empty: any.
  std::vector<ElementType> elements;

  /// Brings an imported node to the newest opset's form; throws Error for what is not supported.
  void (*normalise)(ImportedNode &node, int opset) = nullptr;
  /// Output types from input types, attributes and known constants; throws Error.
  std::vector<TensorType> (*infer)(const NodeView &node) = nullptr;
  /// The reference in double, used for constants and by the interpreter. Written to be read.
  std::vector<Tensor> (*evaluate)(const NodeView &node,
                                  std::span<const Tensor *const> inputs) = nullptr;
  /// Adds the gradient; null: not differentiable (a gradient that arrives is an error), unless
  /// `stopsGradient`.
  void (*differentiate)(GradientBuilder &builder) = nullptr;
  bool stopsGradient = false;
  /// Null: one flop per output element, and each operand once.
  Cost (*cost)(const NodeView &node, std::span<const TensorType> outputs) = nullptr;
  /// Elementwise only: the C++ expression of output 0 (float arithmetic), operands written $0, $1,
  /// attributes $name (always there; a literal of the loop's type takes their place). Several
  /// outputs: one expression each. Operands broadcast as ONNX's. A variadic operator has the
  /// expression of two operands, applied from the left.
  std::vector<std::string_view> expressions;
};

/// The operator of that name, or nullptr.
const Operator *findOperator(std::string_view name);
/// All operators in alphabetical order (for tables and "what is supported").
std::span<const Operator *const> allOperators();
/// Brings an imported node to the one form that the compiler knows; throws Error naming the node,
/// the operator, the opset and what is supported when it is not known or its opset is out of range.
void normaliseNode(ImportedNode &node, int opset);
/// `op.infer` behind checks of operand count, element type and countable shapes.
std::vector<TensorType> inferTypes(const Operator &op, const NodeView &node);
/// `op.evaluate` behind the same checks, with every operand known.
std::vector<Tensor> evaluateNode(const Operator &op, const NodeView &node,
                                 std::span<const Tensor *const> inputs);
/// The cost by the operator's rule or the default one.
Cost costOf(const Operator &op, const NodeView &node, std::span<const TensorType> outputs);

} // namespace pdc
