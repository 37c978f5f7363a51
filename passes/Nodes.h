#pragma once

#include "compiler/ir/Conversion.h"

#include "llvm/ADT/StringSet.h"

#include <optional>

namespace pdc {

/// How rules and compositions hold a value.
inline GradientValue wrap(mlir::Value value) { return {value.getAsOpaquePointer()}; }
inline mlir::Value unwrap(GradientValue value) {
  return mlir::Value::getFromOpaquePointer(value.handle);
}

/// The value of a `Constant` node; nothing for any other value.
std::optional<Tensor> constantOf(mlir::Value value);
/// The same as the node holds it; null for any other value.
mlir::DenseElementsAttr elementsOf(mlir::Value value);
bool isConstant(mlir::Operation *op);
/// The nodes of a unit that compute something: all but constants.
llvm::SmallVector<ir::NodeOp> computingNodes(ir::UnitOp unit);
/// Whether the node shows its first operand under another shape; false where there is no node.
bool isViewNode(mlir::Operation *op);
/// The kernel without the name of its unit, which fields have for messages; null for none.
ir::KernelAttr withoutName(ir::KernelAttr kernel);

/// A node as the rules of compiler/operators see it. Owns everything its view points to.
class NodeFacts {
public:
  /// Throws Error for an unknown operator and for an operand without static shape.
  NodeFacts(llvm::StringRef op, llvm::StringRef name, Attributes attributes,
            mlir::ValueRange operands, size_t outputCount);
  explicit NodeFacts(ir::NodeOp node);
  NodeFacts(const NodeFacts &) = delete;

  const Operator &rules() const { return *found; }
  NodeView view() const;
  /// Result types by the shape rule; at least as many as the node has results. Throws Error for one
  /// of more elements than a tensor may have.
  std::vector<TensorType> infer() const;
  Cost cost(mlir::TypeRange results) const;
  /// Every operand that is there is a constant.
  bool hasOnlyConstants() const;
  /// By the reference. Operands whose value is unknown are passed with their type only.
  std::vector<Tensor> evaluate() const;

private:
  void checkSize(const TensorType &output) const;
  bool reads(mlir::Value constant, size_t operand) const;

  const Operator *found = nullptr;
  std::string op, name;
  Attributes attributes;
  size_t outputCount;
  llvm::SmallVector<mlir::Value> operands;
  std::vector<std::optional<TensorType>> types;
  /// Of constants that rules may ask for: large ones, such as masks, are read where a node is
  /// evaluated.
  std::vector<std::optional<Tensor>> values;
  std::vector<const TensorType *> typePointers;
  std::vector<const Tensor *> valuePointers;
};

/// Throws Error unless the node's operands fit its operator and its results have the types that the
/// shape rule gives them: what is done with a node may rely on both.
void checkTypes(ir::NodeOp node);

/// Adds a node whose result types follow from its operator's shape rule. No `origin`: a forward
/// node.
ir::NodeOp createNode(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef op,
                      llvm::StringRef name, mlir::ValueRange operands, const Attributes &attributes,
                      llvm::StringRef origin = "", size_t outputs = 1);

/// A `Constant` node.
ir::NodeOp createConstant(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef name,
                          mlir::DenseElementsAttr value);

/// `symbols`: of the module, kept by the caller for all that it adds, as a lookup in the module
/// would go through all memories. Throws Error for a name that is taken.
ir::MemoryOp createMemory(mlir::SymbolTable &symbols, mlir::OpBuilder &builder,
                          mlir::Location location, llvm::StringRef name, ir::Role role,
                          ir::Rate rate, mlir::Type type, mlir::Attribute initial = {});

/// The memory in which the gradients of a weight's use are summed; uses are numbered from 0.
std::string gradientName(llvm::StringRef weight, size_t use);

/// When and with which forward unit something is computed.
struct UnitPlace {
  llvm::StringRef origin;
  ir::Phase phase;
  ir::Rate rate;
};
/// A unit with an empty body.
ir::UnitOp createUnit(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef name,
                      const UnitPlace &place, mlir::TypeRange results, mlir::ValueRange operands);

mlir::Value createAbsent(mlir::OpBuilder &builder, mlir::Location location);

/// The names of the nodes of one function; makes new ones that differ from all of them.
class NodeNames {
public:
  explicit NodeNames(mlir::Operation *function);
  /// `name`, or `name.1`, `name.2` ... where that is taken.
  std::string unique(const llvm::Twine &name);

private:
  llvm::StringSet<> taken;
};

} // namespace pdc
