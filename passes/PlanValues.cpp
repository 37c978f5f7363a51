#include "passes/PlanValues.h"

#include "passes/GradientSums.h"
#include "passes/TiedWeights.h"
#include "passes/Values.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

class ValueCollector {
public:
  ValueCollector(func::FuncOp train, PlanIndex indexOf, PlanGraph &graph)
      : train(train), places(train, indexOf), graph(graph) {}

  void addValues() {
    for (UnitOp unit : train.getOps<UnitOp>())
      for (Value result : unit.getResults()) {
        addValue(result, unit);
        addGradient(result, unit);
      }
  }

  /// The unit that uses a weight first sends it, where stages have no step in common, to those that
  /// use it too, and gets its gradients back.
  void addTiedWeights() {
    WeightFamilies families(cast<ModuleOp>(train->getParentOp()));
    std::vector<WeightFamilies::Use> uses = families.usesIn(train);
    std::map<std::string, int> homes;
    for (const WeightFamilies::Use &use : uses)
      if (int index = indexOf(use.unit); index >= 0)
        homes[use.family] = std::min(homes.try_emplace(use.family, index).first->second, index);
    llvm::MapVector<Value, std::set<int>> readers;
    for (const WeightFamilies::Use &use : uses)
      if (int index = indexOf(use.unit); index > homes[use.family])
        readers[use.operand->get()].insert(index);
    for (const auto &[value, units] : readers)
      add(value, "/sent", homes[families.of(value)], units, graph.values);
    for (auto sum : train.getOps<AccumulateOp>())
      if (auto maker = sum.getValue().getDefiningOp<UnitOp>())
        if (auto home = homes.find(familyOf(sum, families)); home != homes.end())
          if (home->second < indexOf(maker))
            add(sum.getValue(), "", indexOf(maker), {home->second}, graph.gradients);
  }

private:
  /// Of the forward pass. What backward passes of later units read of it goes to them with it.
  void addValue(Value value, UnitOp unit) {
    if (taskPhase(unit) != ir::Phase::Forward)
      return;
    std::set<int> readers = readersOf(value);
    readers.erase(readers.begin(), readers.upper_bound(indexOf(unit)));
    add(value, "", indexOf(unit), readers, graph.values);
  }

  /// Of the backward pass; or of the forward pass, where the backward pass of an earlier unit reads
  /// it (a loss weight).
  void addGradient(Value value, UnitOp unit) {
    const ir::Phase phase = taskPhase(unit);
    if ((phase != ir::Phase::Forward && phase != ir::Phase::Backward) || indexOf(unit) < 0)
      return;
    std::set<int> readers = readersOf(value);
    readers.erase(readers.lower_bound(indexOf(unit)), readers.end());
    add(value, "", indexOf(unit), readers, graph.gradients);
  }

  /// The units of the plan that read a value. What stacks gradients is there again for each later
  /// unit that reads the stack (AssignStages).
  std::set<int> readersOf(Value value) {
    std::set<int> readers;
    for (Operation *user : value.getUsers()) {
      auto reader = dyn_cast<UnitOp>(user);
      if (!reader || indexOf(reader) < 0)
        continue;
      readers.insert(indexOf(reader));
      if (taskPhase(reader) == ir::Phase::Backward && isStack(reader)) {
        std::set<int> later = readersOf(reader.getResult(0));
        readers.insert(later.upper_bound(indexOf(reader)), later.end());
      }
    }
    return readers;
  }

  static void add(Value value, const char *ending, int producer, const std::set<int> &consumers,
                  std::vector<PlanValue> &values) {
    if (!consumers.empty())
      values.push_back({tensorName(value) + ending,
                        producer,
                        {consumers.begin(), consumers.end()},
                        bytesOf(value.getType())});
  }

  /// Of the weight that is updated by this sum of gradients; empty: of none.
  std::string familyOf(AccumulateOp sum, const WeightFamilies &families) {
    for (auto read : train.getOps<ReadOp>())
      if (read.getMemory() == sum.getMemory())
        if (std::string family = familyUpdatedBy(read, families); !family.empty())
          return family;
    return {};
  }

  static std::string familyUpdatedBy(Operation *maker, const WeightFamilies &families) {
    for (Operation *user : maker->getUsers()) {
      auto update = dyn_cast<UnitOp>(user);
      if (!update || taskPhase(update) != ir::Phase::Update)
        continue;
      for (Value operand : update.getOperands())
        if (std::string family = families.of(operand); !family.empty())
          return family;
      if (std::string family = familyUpdatedBy(update, families); !family.empty())
        return family;
    }
    return {};
  }

  /// The unit of the plan in whose stage a unit is, or -1.
  int indexOf(UnitOp unit) const { return static_cast<int>(places.placeOf(unit)); }

  func::FuncOp train;
  const GradientSums places;
  PlanGraph &graph;
};

} // namespace

void addPlanValues(func::FuncOp train, PlanIndex indexOf, PlanGraph &graph) {
  ValueCollector collector(train, indexOf, graph);
  collector.addValues();
  if (train->getParentOp()->hasAttr("pdc.asynchronous"))
    collector.addTiedWeights();
}

} // namespace pdc
