#include "passes/GradientNode.h"

#include "passes/Backpropagation.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

static SmallVector<NodeOp> nodesBefore(NodeOp node) {
  SmallVector<NodeOp> before;
  for (Operation &op : *node->getBlock()) {
    if (&op == node)
      break;
    if (auto earlier = dyn_cast<NodeOp>(op))
      before.push_back(earlier);
  }
  return before;
}

static Value filled(NodeOp asks, NodeNames &names, Value like, double value) {
  OpBuilder builder(asks);
  Tensor tensor = Tensor::zeros(toTensorType(like.getType()));
  std::fill(tensor.data.begin(), tensor.data.end(), value);
  return createNode(builder, asks.getLoc(), "Constant", names.unique(asks.getName() + "/Constant"),
                    {}, {{"value", tensor}})
      .getResult(0);
}

/// What is computed of constants alone is computed already: a way back to them is gone.
static void checkVariable(NodeOp gradient, Value x, size_t position) {
  const std::string where = "node '" + gradient.getName().str() + "' (Gradient): value " +
                            std::to_string(position) + " of xs ";
  if (constantOf(x))
    throw Error(where + "is a constant of the graph; make it an input or an initializer");
  if (!isa<FloatType>(cast<RankedTensorType>(x.getType()).getElementType()))
    throw Error(where + "is " + toTensorType(x.getType()).toString() +
                ", expected floating-point numbers; take it out");
}

/// ONNX takes y as a function of independent variables: none of xs and zs may be computed from
/// another.
static void checkIndependent(NodeOp gradient, ArrayRef<NodeOp> before) {
  DenseSet<Value> variables, computed;
  auto dependsOnVariable = [&](Value value) {
    return variables.contains(value) || computed.contains(value);
  };
  for (Value variable : gradient.getOperands().drop_back())
    if (!variables.insert(variable).second)
      computed.insert(variable);
  for (NodeOp node : before)
    if (llvm::any_of(node->getOperands(), dependsOnVariable))
      computed.insert(node->result_begin(), node->result_end());
  for (auto [i, variable] : llvm::enumerate(gradient.getOperands().drop_back()))
    if (computed.contains(variable))
      throw Error("node '" + gradient.getName().str() + "' (Gradient): value " + std::to_string(i) +
                  " of xs and zs is computed from another of them, expected independent values; "
                  "take one of the two out");
}

SmallVector<Value> replaceGradient(NodeOp gradient, NodeNames &names) {
  Backpropagation rules(nodesBefore(gradient), OpBuilder(gradient), names, /*hasOrigins=*/false);
  checkIndependent(gradient, rules.nodes());
  const size_t count = gradient.getNumResults();
  for (size_t i = 0; i < count; ++i) {
    checkVariable(gradient, gradient.getOperand(i), i);
    rules.want(gradient.getOperand(i));
  }
  for (NodeOp node : rules.nodes())
    rules.markActive(node);
  Value y = gradient.getOperands().back();
  rules.seed(y, filled(gradient, names, y, 1));
  for (int i = static_cast<int>(rules.nodes().size()) - 1; i >= 0; --i)
    rules.differentiate(i);
  SmallVector<Value> values;
  for (size_t i = 0; i < count; ++i) {
    Value x = gradient.getOperand(i), found = rules.gradientOf(x, gradient);
    values.push_back(found ? found : filled(gradient, names, x, 0));
    gradient.getResult(i).replaceAllUsesWith(values.back());
  }
  gradient.erase();
  return values;
}

} // namespace pdc
