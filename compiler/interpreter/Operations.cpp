#include "compiler/interpreter/Operations.h"

#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace pdc::interpreter {

namespace {

/// The values of one run of a task. An absent operand has none.
class Evaluation {
public:
  Evaluation(Machine &machine, const Run &run) : machine(machine), run(run) {}

  void evaluate(mlir::Operation *operation) {
    llvm::TypeSwitch<mlir::Operation *>(operation)
        .Case<ir::ReadOp, ir::WeightVersionOp, ir::WriteOp, ir::CommitOp, ir::AccumulateOp,
              ir::NodeOp, ir::UnitOp, ir::CutOp>([&](auto op) { evaluateOp(op); })
        .Case<ir::AbsentOp, ir::YieldOp, mlir::func::ReturnOp, ir::MemoryOp>([](auto) {})
        .Default([](mlir::Operation *op) {
          throw Error("cannot interpret operation '" + op->getName().getStringRef().str() + "'");
        });
  }

private:
  const Tensor &get(mlir::Value value) {
    auto it = values.find(value);
    if (it == values.end())
      throw Error("a value is used in the " + ir::stringifyPhase(run.phase).str() +
                  " task of stage " + std::to_string(run.stage) + " but not computed there");
    return it->second;
  }

  /// Keeps a value after holding it against the type that the IR promises.
  void set(mlir::Value value, Tensor tensor, llvm::StringRef what) {
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
    if (type && type.hasStaticShape() && toTensorType(type).shape != tensor.type.shape)
      throw Error(what.str() + " gives " + tensor.type.toString() + ", but the IR says " +
                  toTensorType(type).toString());
    values.insert_or_assign(value, std::move(tensor));
  }

  void evaluateOp(ir::ReadOp op) {
    set(op.getValue(), machine.read(op.getMemory(), run), op.getMemory());
  }
  void evaluateOp(ir::WeightVersionOp op) {
    set(op.getValue(), machine.readVersion(op.getMemory(), op.getVersion(), run), op.getMemory());
  }
  void evaluateOp(ir::WriteOp op) { machine.write(op.getMemory(), get(op.getValue()), run); }
  void evaluateOp(ir::CommitOp op) { machine.commit(op.getMemory(), get(op.getValue()), run); }
  void evaluateOp(ir::AccumulateOp op) {
    machine.accumulate(op.getMemory(), get(op.getValue()), run);
  }
  void evaluateOp(ir::CutOp op) { set(op.getResult(), get(op.getValue()), "a cut"); }

  void evaluateOp(ir::NodeOp node) {
    const Operator *op = findOperator(node.getOp().str());
    if (!op)
      throw Error("node '" + node.getName().str() + "': there is no operator '" +
                  node.getOp().str() + "'");
    std::vector<const Tensor *> inputs;
    std::vector<const TensorType *> types;
    for (mlir::Value operand : node.getOperands()) {
      bool absent = llvm::isa<mlir::NoneType>(operand.getType());
      inputs.push_back(absent ? nullptr : &get(operand));
      types.push_back(absent ? nullptr : &inputs.back()->type);
    }
    Attributes attributes = toAttributes(node.getOnnxAttributes());
    std::string_view name = node.getName(), opName = node.getOp();
    NodeView view{opName, name, attributes, types, inputs, node.getNumResults()};
    std::vector<Tensor> results = evaluateNode(*op, view, inputs);
    if (results.size() < node.getNumResults())
      throw Error("node '" + std::string(name) + "' (" + std::string(opName) + ") gives " +
                  std::to_string(results.size()) + " results, but the IR has " +
                  std::to_string(node.getNumResults()));
    for (auto [value, result] : llvm::zip_first(node.getResults(), results))
      set(value, std::move(result), "node '" + node.getName().str() + "'");
  }

  void evaluateOp(ir::UnitOp unit) {
    mlir::Block &body = unit.getBody().front();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), unit.getOperands()))
      if (!llvm::isa<mlir::NoneType>(operand.getType()))
        values.insert_or_assign(argument, get(operand));
    for (mlir::Operation &operation : body)
      evaluate(&operation);
    for (auto [result, value] : llvm::zip_equal(unit.getResults(), body.back().getOperands()))
      set(result, get(value), "unit '" + unit.getName().str() + "'");
  }

  Machine &machine;
  const Run &run;
  struct ByPointer {
    bool operator()(mlir::Value a, mlir::Value b) const {
      return a.getAsOpaquePointer() < b.getAsOpaquePointer();
    }
  };
  std::map<mlir::Value, Tensor, ByPointer> values;
};

} // namespace

void runOperations(Machine &machine, llvm::ArrayRef<mlir::Operation *> operations, const Run &run) {
  Evaluation evaluation(machine, run);
  for (mlir::Operation *operation : operations)
    evaluation.evaluate(operation);
}

} // namespace pdc::interpreter
