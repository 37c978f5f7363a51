#include "passes/Composites.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "compiler/operators/Rules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace pdc {
#define GEN_PASS_DEF_READREPEATED
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Lets the loops of a function read what is repeated for them where it lies.
class RepeatedReader {
public:
  explicit RepeatedReader(func::FuncOp function) : function(function), names(function) {}

  void read() {
    for (NodeOp node : llvm::to_vector(function.getOps<NodeOp>()))
      readIn(node);
    eraseUnread();
  }

private:
  void readIn(NodeOp loop) {
    if (NodeFacts(loop).rules().kind != OperatorClass::elementwise || isMaskedByNormalisation(loop))
      return;
    for (OpOperand &operand : loop->getOpOperands())
      if (auto repeated = operand.get().getDefiningOp<NodeOp>())
        if (Value small = behind(repeated); small && replace(loop, operand, small))
          readers.insert({repeated, loop});
  }

  /// The gradients of an Expand then come from the loop that repeats in its place.
  void eraseUnread() {
    llvm::StringMap<std::string> origins;
    for (auto [repeated, loop] : readers)
      if (repeated->use_empty()) {
        origins[NodeOp(repeated).getName()] =
            NodeOp(loop).getOrigin().value_or(NodeOp(loop).getName()).str();
        repeated->erase();
      }
    for (auto node : function.getOps<NodeOp>())
      if (auto found = origins.find(node.getOrigin().value_or("")); found != origins.end())
        node.setOrigin(found->second);
  }

  /// What a node repeats, under a shape that broadcasts to its result's; null where it repeats
  /// nothing.
  Value behind(NodeOp node) {
    if (node.getOp() == "Expand")
      return node.getOperand(0);
    if (node.getOp() != "ReduceSumGrad")
      return {};
    auto [known, isNew] = kept.try_emplace(node);
    if (isNew)
      known->second = withAxes(node);
    return known->second;
  }

  /// The operand of the gradient of a sum with ones where the sum has no dimension.
  Value withAxes(NodeOp node) {
    const pdc::TensorType whole = toTensorType(node.getResult(0).getType()),
                          part = toTensorType(node.getOperand(0).getType());
    if (part.elementCount() == 1 && part.rank() <= whole.rank())
      return node.getOperand(0);
    const bool hasAxes = node.getNumOperands() > 2 && !node.getOperand(2).getDefiningOp<AbsentOp>();
    std::optional<pdc::Tensor> axes =
        hasAxes ? constantOf(node.getOperand(2)) : std::optional<pdc::Tensor>();
    if (!axes)
      return {};
    std::vector<int64_t> shape = whole.shape;
    for (int64_t axis : axes->toIntegers())
      shape.at(static_cast<size_t>(axis < 0 ? axis + whole.rank() : axis)) = 1;
    if (product(shape) != part.elementCount())
      return {};
    OpBuilder builder(node);
    const std::string name = names.unique(node.getName() + "/kept"),
                      origin = node.getOrigin().value_or("").str();
    NodeOp sizes = createNode(builder, node.getLoc(), "Constant", names.unique(name + "/shape"), {},
                              {{"value", pdc::Tensor::vector(shape)}});
    return createNode(builder, node.getLoc(), "Reshape", name,
                      {node.getOperand(0), sizes->getResult(0)}, {}, origin)
        ->getResult(0);
  }

  /// Where another operand of the loop has the shape of the result; else false, and as before.
  static bool replace(NodeOp loop, OpOperand &operand, Value small) {
    const bool isShaped = llvm::any_of(loop->getOpOperands(), [&](OpOperand &other) {
      return &other != &operand && shapeOf(other.get()) == shapeOf(loop->getResult(0));
    });
    if (isShaped)
      operand.set(small);
    return isShaped;
  }

  func::FuncOp function;
  NodeNames names;
  llvm::MapVector<NodeOp, NodeOp> readers; ///< by what was repeated, the first that reads on
  llvm::DenseMap<Operation *, Value> kept; ///< null: not known
};

struct ReadRepeated : pdc::impl::ReadRepeatedBase<ReadRepeated> {
  void runOnOperation() override {
    auto read = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        RepeatedReader(function).read();
      return success();
    };
    if (failed(runChecked(getOperation(), read)))
      signalPassFailure();
  }
};

} // namespace
