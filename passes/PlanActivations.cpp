#include "passes/PlanActivations.h"

#include "passes/Values.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

UnitOp makerIn(Value value, ir::Phase phase) {
  auto maker = dyn_cast_or_null<UnitOp>(value.getDefiningOp());
  return maker && taskPhase(maker) == phase ? maker : UnitOp();
}

class ActivationCollector {
public:
  ActivationCollector(func::FuncOp train, PlanIndex indexOf, PlanGraph &graph)
      : train(train), indexOf(indexOf), graph(graph) {
    for (UnitOp unit : train.getOps<UnitOp>())
      if (taskPhase(unit) == ir::Phase::Backward && indexOf(unit) >= 0)
        for (Value operand : unit.getOperands())
          addRead(unit, behindViews(operand));
  }

  void addKept() {
    llvm::StringMap<int> freedAt; ///< by name of what is kept; -1: weight gradients read it
    for (const auto &[value, readers] : stash) {
      const int64_t bytes = bytesOf(value.getType());
      const int producer = indexOf(value.getDefiningOp<UnitOp>());
      const int freed = readers.weightGradient ? -1 : std::max(readers.last, producer);
      freedAt[tensorName(value)] = freed;
      graph.units[producer].stashBytes += bytes;
      if (freed < 0)
        continue;
      graph.units[producer].inputStashBytes += bytes;
      graph.units[freed].freedStashBytes += bytes;
    }
    for (Value value : halfway)
      graph.units[indexOf(value.getDefiningOp<UnitOp>())].halfwayBytes += bytesOf(value.getType());
    for (PlanValue &value : graph.values)
      if (auto found = freedAt.find(value.name); found != freedAt.end()) {
        value.isStashed = true;
        value.freedAt = found->second;
      }
  }

  /// What only @evaluate has follows what stands before it.
  LiveBytes addTemporaries() {
    LiveBytes all;
    auto isStashed = [&](Value value) { return stash.contains(value); };
    auto isKept = [&](Value value) { return isStashed(value) || halfway.contains(value); };
    for (auto function : train->getParentOfType<ModuleOp>().getOps<func::FuncOp>()) {
      const LiveBytes live = liveBytes(function, isStashed);
      all.insert(live.begin(), live.end());
      if (function != train) {
        addMost(function, live, &PlanUnit::evaluationTemporaryBytes);
        continue;
      }
      addMost(function, live, &PlanUnit::temporaryBytes);
      addMost(function, splitLiveBytes(function, isKept), &PlanUnit::splitTemporaryBytes);
    }
    return all;
  }

private:
  struct Readers {
    bool weightGradient = false;
    int last; ///< of the input gradients, the unit that its backward pass comes to last
  };

  /// What a backward unit reads of the forward pass is kept; and what weight gradients read of
  /// input gradients where both run apart.
  void addRead(UnitOp reader, Value value) {
    const bool isWeightGradient = reader.getPhase() == ir::Phase::BackwardWeight;
    if (makerIn(value, ir::Phase::Forward)) {
      Readers &readers = stash.try_emplace(value, Readers{false, indexOf(reader)}).first->second;
      readers.weightGradient |= isWeightGradient;
      readers.last = std::min(readers.last, indexOf(reader));
    } else if (UnitOp maker = makerIn(value, ir::Phase::Backward)) {
      if (isWeightGradient && maker.getPhase() == ir::Phase::BackwardInput && indexOf(maker) >= 0)
        halfway.insert(value);
    }
  }

  void addMost(func::FuncOp function, const LiveBytes &live, int64_t PlanUnit::*field) {
    int index = -1;
    for (UnitOp unit : function.getOps<UnitOp>()) {
      if (int own = indexOf(unit); own >= 0)
        index = own;
      if (index >= 0)
        graph.units[index].*field = std::max(graph.units[index].*field, live.lookup(unit));
    }
  }

  func::FuncOp train;
  PlanIndex indexOf;
  PlanGraph &graph;
  llvm::MapVector<Value, Readers> stash; ///< by value of the forward pass
  llvm::DenseSet<Value> halfway;
};

} // namespace

LiveBytes addActivations(func::FuncOp train, PlanIndex indexOf, PlanGraph &graph) {
  ActivationCollector collector(train, indexOf, graph);
  collector.addKept();
  return collector.addTemporaries();
}

} // namespace pdc
