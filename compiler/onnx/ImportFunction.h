#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Loss.h"
#include "compiler/onnx/Names.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {

/// forward: as the file says, which may be neither.
enum class Entry : uint8_t { train, evaluate, forward };

/// Whether the operator asks for the operand's value when it is compiled.
bool isAskedFor(const ModelNode &node, size_t operand);

/// An input of @evaluate, i64 [samples, 1, ...] with as many dimensions as the labels: 1 for
/// samples that are there, 0 for those that pad the last batch.
inline constexpr const char kPresentSamples[] = "pdc.present_samples";

/// Fills an entry function: the nodes that the loss needs, the loss, its metrics. Memories are
/// there already, under the names of their tensors.
class FunctionImporter {
public:
  /// `frozen` are the BatchNormalization nodes that training leaves their mean and variance.
  FunctionImporter(mlir::func::FuncOp function, const Model &model, const Loss &loss, Entry entry,
                   const std::set<std::string> &frozen);
  void run();

private:
  struct NewNode {
    std::string op;
    std::string name;
    std::vector<mlir::Value> operands;
    Attributes attributes;
    size_t results = 1;
    /// Integers and booleans known at import; empty: float of unknown shape.
    std::optional<TensorType> type;
  };

  void importNode(const ModelNode &node);
  void importGeneric(const ModelNode &node, Attributes attributes, size_t results);
  void importBatchNormalization(const ModelNode &node);
  void importDropout(const ModelNode &node);
  void importRandom(const ModelNode &node);
  void refuseForward(const ModelNode &node);
  /// The one value of an operand that must be known now; `otherwise` when it is left out.
  double known(const ModelNode &node, size_t operand, double otherwise);

  mlir::Value operandOf(const ModelNode &node, size_t operand);
  mlir::Value valueOf(const std::string &name, const std::string &reader);
  mlir::Value valueOfInitializer(const Initializer &initializer);
  mlir::Value constantOf(const Initializer &initializer);
  mlir::Value readMemory(const std::string &name);
  mlir::Value absent();
  mlir::ValueRange create(const NewNode &node);
  void write(mlir::Value value, const std::string &memory);

  void addLoss();
  bool isRead(const std::string &value) const;
  void writeOutputs();
  void flattenSamples(mlir::Value &prediction, mlir::Value &labels);
  mlir::Value addLossNode(mlir::Value prediction, mlir::Value labels, mlir::Value classWeights);
  mlir::Value presentSamples();
  void keepPresent(mlir::Value &prediction, mlir::Value &labels, mlir::Value present);
  mlir::Value weightOfPresent(mlir::Value weight, mlir::Value present);
  mlir::Value numberConstant(double value);
  mlir::Value countOf(mlir::Value labels, mlir::Value classWeights);
  void addWeight(mlir::Value labels, mlir::Value classWeights);
  void addMetric(mlir::Value value, const std::string &training, const std::string &evaluation);

  mlir::func::FuncOp function;
  const Model &model;
  const Loss &loss;
  Entry entry;
  const std::set<std::string> &frozen;
  mlir::OpBuilder builder;
  mlir::SymbolTable memories;
  std::map<std::string, mlir::Value> values;
  Names names;
};

} // namespace pdc
