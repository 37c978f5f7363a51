#include "passes/Composites.h"
#include "passes/FusedUnit.h"
#include "passes/Nodes.h"
#include "passes/Partitions.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/UnitFacts.h"
#include "passes/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace pdc {
#define GEN_PASS_DEF_FUSEPARTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The only node of a unit that is more than a constant, if it is of this operator.
NodeOp onlyNode(UnitOp unit, StringRef op) {
  SmallVector<NodeOp> nodes = computingNodes(unit);
  return nodes.size() == 1 && nodes.front().getOp() == op ? nodes.front() : NodeOp();
}

/// Nodes that compute what another before them computes, of the units that became this one.
void mergeRepeated(UnitOp unit) {
  SmallVector<NodeOp> kept;
  for (NodeOp node : llvm::make_early_inc_range(unit.getBody().front().getOps<NodeOp>())) {
    auto *same = llvm::find_if(kept, [&](NodeOp other) {
      return other.getOp() == node.getOp() && other.getOperands() == node.getOperands() &&
             other.getOnnxAttributes() == node.getOnnxAttributes() &&
             other.getResultTypes() == node.getResultTypes();
    });
    if (same == kept.end()) {
      kept.push_back(node);
      continue;
    }
    node->replaceAllUsesWith(*same);
    node.erase();
  }
}

/// Units of the forward pass that are gone, by the name of the one that each is planned with now.
using Successors = llvm::StringMap<std::string>;

/// Lets the loops of a function read and write parts of tensors where they lie.
class PartFuser {
public:
  PartFuser(func::FuncOp function, const DeviceOptions &options, Successors &successors)
      : function(function), options(options), successors(successors), names(function) {}

  void fuse() {
    for (UnitOp unit : llvm::to_vector(function.getOps<UnitOp>()))
      if (onlyNode(unit, "Split") && !partitionOf(unit))
        readParts(unit);
    for (UnitOp unit : llvm::to_vector(function.getOps<UnitOp>()))
      if (onlyNode(unit, "Concat") && !partitionOf(unit))
        writeParts(unit);
  }

private:
  void readParts(UnitOp split);
  bool canRead(UnitOp loop, UnitOp split);
  bool keepsMore(UnitOp split);
  SmallVector<NodeOp> read(UnitOp loop, UnitOp split);
  void nameAgain(ArrayRef<NodeOp> nodes, UnitOp loop);
  void writeParts(UnitOp concat);
  bool isPlannedWith(UnitOp loop, UnitOp concat);
  bool isLoopOf(UnitOp unit, Value part);
  void follow(UnitOp gone, UnitOp successor);

  func::FuncOp function;
  const DeviceOptions &options;
  Successors &successors;
  NodeNames names;
};

/// Whether the unit is a loop of as many elements as a part has.
bool PartFuser::isLoopOf(UnitOp unit, Value part) {
  const UnitFacts facts(unit);
  return (isLoop(facts.view(), options) || isLoopOverParts(facts.view(), options)) &&
         llvm::any_of(computingNodes(unit), [&](NodeOp node) {
           return node.getOp() != "Split" && shapeOf(node.getResult(0)) == shapeOf(part);
         });
}

void PartFuser::follow(UnitOp gone, UnitOp successor) {
  if (gone.getPhase() == ir::Phase::Forward)
    successors[gone.getName()] = successor.getOrigin().str();
}

/// All readers of the parts read the whole, or none does: it is copied apart otherwise.
void PartFuser::readParts(UnitOp split) {
  llvm::SetVector<Operation *> users(split->user_begin(), split->user_end());
  if (users.empty() || !llvm::all_of(users, llvm::IsaPred<UnitOp>) || keepsMore(split))
    return;
  SmallVector<UnitOp> loops;
  for (Operation *user : users)
    loops.push_back(cast<UnitOp>(user));
  llvm::sort(loops, [](UnitOp a, UnitOp b) { return a->isBeforeInBlock(b); });
  // One of the same pass takes its place in the plan.
  if (loops.front().getPhase() != split.getPhase() ||
      !llvm::all_of(loops, [&](UnitOp loop) { return canRead(loop, split); }))
    return;
  read(loops.front(), split);
  for (UnitOp loop : llvm::drop_begin(loops))
    nameAgain(read(loop, split), loop);
  follow(split, loops.front());
  split.erase();
}

/// Tried on a copy.
bool PartFuser::canRead(UnitOp loop, UnitOp split) {
  for (Value part : split.getResults())
    if (llvm::is_contained(part.getUsers(), loop) && !isLoopOf(loop, part))
      return false;
  if (loop.getRate() != split.getRate() ||
      llvm::is_contained(loop.getOperands(), split.getOperand(0)))
    return false;
  OpBuilder builder(loop);
  auto copy = cast<UnitOp>(builder.clone(*loop));
  read(copy, split);
  const bool isLoop = isLoopOverParts(UnitFacts(copy).view(), options);
  copy.erase();
  return isLoop;
}

/// Whether more would be kept for the backward pass than the parts that it reads.
bool PartFuser::keepsMore(UnitOp split) {
  int64_t kept = 0;
  for (Value part : split.getResults())
    if (llvm::any_of(part.getUsers(), [&](Operation *user) {
          return taskPhase(cast<UnitOp>(user)) != taskPhase(split);
        }))
      kept += bytesOf(part.getType());
  return kept > 0 && bytesOf(split.getOperand(0).getType()) > kept + kept / 8;
}

/// The loop takes in the nodes that divide.
SmallVector<NodeOp> PartFuser::read(UnitOp loop, UnitOp split) {
  Block &body = loop.getBody().front();
  const Value whole = split.getOperand(0);
  IRMapping inside;
  inside.map(split.getBody().getArgument(0), body.addArgument(whole.getType(), loop.getLoc()));
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  SmallVector<NodeOp> nodes;
  for (Operation &op : split.getBody().front().without_terminator()) {
    nodes.push_back(cast<NodeOp>(builder.clone(op, inside)));
    nodes.back().setPhase(loop.getPhase());
    nodes.back().setRate(loop.getRate());
  }
  loop->insertOperands(loop->getNumOperands(), whole);
  Operation *parts = split.getBody().front().getTerminator();
  for (unsigned i = loop.getNumOperands(); i-- > 0;)
    if (loop.getOperand(i).getDefiningOp() == split) {
      const unsigned part = cast<OpResult>(loop.getOperand(i)).getResultNumber();
      body.getArgument(i).replaceAllUsesWith(inside.lookup(parts->getOperand(part)));
      body.eraseArgument(i);
      loop->eraseOperand(i);
    }
  return nodes;
}

/// Other loops than the first divide by nodes of their own.
void PartFuser::nameAgain(ArrayRef<NodeOp> nodes, UnitOp loop) {
  for (NodeOp node : nodes) {
    if (loop.getPhase() != ir::Phase::Forward && !node.getOrigin())
      node.setOrigin(node.getName());
    node.setName(names.unique(node.getName() + "/again"));
  }
}

/// One loop makes all parts, which nobody else reads.
void PartFuser::writeParts(UnitOp concat) {
  llvm::SetVector<Operation *> makers;
  for (Value part : concat.getOperands()) {
    auto loop = part.getDefiningOp<UnitOp>();
    if (!loop || !part.hasOneUse() || !isLoopOf(loop, part) || !isPlannedWith(loop, concat) ||
        !llvm::all_of(loop->getUsers(), [&](Operation *user) { return user == concat; }))
      return;
    makers.insert(loop);
  }
  llvm::SetVector<Value> operands;
  for (Operation *maker : makers)
    operands.insert(maker->operand_begin(), maker->operand_end());
  FusedUnit fused(cast<UnitOp>(makers.front()), concat, concat, operands.getArrayRef(),
                  concat->getResultTypes());
  for (Operation *maker : makers)
    fused.take(cast<UnitOp>(maker));
  UnitOp unit = fused.finish(fused.take(concat));
  mergeRepeated(unit);
  if (!isLoopOverParts(UnitFacts(unit).view(), options))
    return unit.erase();
  concat->replaceAllUsesWith(unit.getResults());
  follow(concat, unit);
  concat.erase();
  for (Operation *maker : makers) {
    follow(cast<UnitOp>(maker), unit);
    maker->erase();
  }
}

bool PartFuser::isPlannedWith(UnitOp loop, UnitOp concat) {
  auto originOf = [&](UnitOp unit) {
    auto found = successors.find(unit.getOrigin());
    return found == successors.end() ? unit.getOrigin() : StringRef(found->second);
  };
  return loop.getPhase() == concat.getPhase() && loop.getRate() == concat.getRate() &&
         (loop.getPhase() == ir::Phase::Forward || originOf(loop) == originOf(concat)) &&
         canWaitUntil(loop, concat);
}

struct FuseParts : pdc::impl::FusePartsBase<FuseParts> {
  using FusePartsBase::FusePartsBase;

  void runOnOperation() override {
    auto body = [&] {
      const DeviceOptions options{exact, static_cast<int>(threads), static_cast<int>(vectorWidth),
                                  deviceKind(device), precisionNamed(precision)};
      Successors successors;
      for (StringRef name : {"train", "evaluate"})
        if (auto function = getOperation().lookupSymbol<func::FuncOp>(name))
          PartFuser(function, options, successors).fuse();
      getOperation().walk([&](UnitOp unit) {
        for (auto found = successors.find(unit.getOrigin()); found != successors.end();
             found = successors.find(unit.getOrigin()))
          unit.setOrigin(found->second);
      });
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
