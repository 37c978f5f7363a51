#include "passes/Composites.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/operators/Rules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace pdc {
#define GEN_PASS_DEF_HOISTSPLITS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Where a value is divided: a dimension, and how many elements each part has of it.
struct Division {
  size_t axis;
  SmallVector<int64_t> sizes;

  std::vector<int64_t> shapeOfPart(ArrayRef<int64_t> whole, size_t part) const {
    std::vector<int64_t> shape(whole);
    shape[axis] = sizes[part];
    return shape;
  }
};

/// The same division of what is viewed; nothing where a part is none of a single dimension there.
std::optional<Division> beforeView(const Division &division, ArrayRef<int64_t> view,
                                   ArrayRef<int64_t> viewed) {
  const int64_t before = product(view.take_front(division.axis).vec()), size = view[division.axis];
  int64_t passed = 1;
  for (auto [d, of] : llvm::enumerate(viewed)) {
    if (passed == before && of != 1) {
      if (of % size != 0)
        return std::nullopt;
      Division found = {d, division.sizes};
      for (int64_t &part : found.sizes)
        part *= of / size;
      return found;
    }
    passed *= of;
  }
  return std::nullopt;
}

/// Moves one Split before the transpositions of what it divides.
class Hoister {
public:
  Hoister(NodeOp split, NodeNames &names) : split(split), names(names), builder(split) {}

  void hoist() {
    if (split.getNumOperands() == 0 || !find() || !turns)
      return;
    const std::string name = split.getName().str();
    NodeOp given = createNode(
        builder, split.getLoc(), "Constant", names.unique(name + "/sizes"), {},
        {{"value", pdc::Tensor::vector({division.sizes.begin(), division.sizes.end()})}});
    NodeOp made = createNode(builder, split.getLoc(), "Split", name, {whole, given->getResult(0)},
                             {{"axis", int64_t(division.axis)}}, "", division.sizes.size());
    for (unsigned i = 0; i < made.getNumResults(); ++i)
      split->getResult(i).replaceAllUsesWith(moved(made->getResult(i), i));
    split.erase();
    for (Step &step : steps)
      step.node.erase();
  }

private:
  /// What moves the elements, and how they are divided behind it.
  struct Step {
    NodeOp node;
    Division after;
  };

  /// Follows what is divided back; false where that cannot be done.
  bool find() {
    whole = split.getOperand(0);
    if (llvm::is_contained(shapeOf(whole), 0) || shapeOf(whole).empty())
      return false;
    division.axis = size_t(axisOf(split));
    for (Value part : split->getResults())
      division.sizes.push_back(shapeOf(part)[division.axis]);
    if (division.sizes.size() < 2)
      return false;
    while (whole.hasOneUse() && passTransposition(whole.getDefiningOp<NodeOp>())) {
    }
    return true;
  }

  bool passTransposition(NodeOp node) {
    if (!node || !node.getOrigin().value_or("").empty() || node.getNumOperands() == 0)
      return false;
    std::optional<Division> before;
    if (node.getOp() == "Transpose") {
      before = division;
      before->axis = size_t(permutationOf(node)[division.axis]);
      turns = true;
    } else if (isViewNode(node)) {
      before = beforeView(division, shapeOf(whole), shapeOf(node.getOperand(0)));
    }
    if (!before)
      return false;
    steps.push_back({node, division});
    division = *before;
    whole = node.getOperand(0);
    return true;
  }

  /// A part as the whole was moved.
  Value moved(Value part, unsigned number) {
    for (Step &step : llvm::reverse(steps)) {
      const std::string name = names.unique(step.node.getName() + "/part");
      part =
          step.node.getOp() == "Transpose"
              ? createNode(builder, split.getLoc(), "Transpose", name, part,
                           toAttributes(step.node.getOnnxAttributes()))
                    ->getResult(0)
              : reshaped(builder, split, name, part,
                         step.after.shapeOfPart(shapeOf(step.node->getResult(0)), number), names);
    }
    return part;
  }

  NodeOp split;
  NodeNames &names;
  OpBuilder builder;
  Value whole;
  Division division;
  bool turns = false;      ///< whether a step is a transposition
  SmallVector<Step> steps; ///< from the Split back
};

struct HoistSplits : pdc::impl::HoistSplitsBase<HoistSplits> {
  void runOnOperation() override {
    auto hoist = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>()) {
        NodeNames names(function);
        for (NodeOp node : llvm::to_vector(function.getOps<NodeOp>()))
          if (node.getOp() == "Split" && node.getOrigin().value_or("").empty())
            Hoister(node, names).hoist();
      }
      return success();
    };
    if (failed(runChecked(getOperation(), hoist)))
      signalPassFailure();
  }
};

} // namespace
