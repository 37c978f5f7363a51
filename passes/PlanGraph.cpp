#include "passes/PlanGraph.h"

#include "compiler/Error.h"
#include "passes/Nodes.h"
#include "passes/PlanActivations.h"
#include "passes/ProgramMemory.h"
#include "passes/SharedStates.h"
#include "passes/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Walks the module and collects.
class GraphBuilder {
public:
  explicit GraphBuilder(ModuleOp module) : symbols(module) {
    train = symbols.lookup<func::FuncOp>("train");
    if (!train)
      throw Error("the module has no function @train; import a model first");
    loss = summedInto("pdc.loss");
    lossWeight = summedInto("pdc.loss_weight");
    LibraryUse use;
    module.walk([&](UnitOp unit) { use.add(unit); });
    libraryBytes = use.bytesOfProcess() + use.bytesOfRank();
  }

  PlanGraph build() {
    addForwardUnits();
    for (UnitOp unit : train.getOps<UnitOp>())
      addCosts(unit);
    findAdders();
    for (Operation &op : train.getOps())
      addMemory(op);
    findReaders();
    auto indexOfUnit = [&](UnitOp unit) { return indexOf(unit); };
    addPlanValues(train, indexOfUnit, graph);
    live = addActivations(train, indexOfUnit, graph);
    if (!train->getParentOp()->hasAttr("pdc.asynchronous"))
      addTied();
    addReads();
    return std::move(graph);
  }

private:
  void addForwardUnits() {
    SmallVector<UnitOp> connected, companions;
    for (UnitOp unit : train.getOps<UnitOp>())
      if (taskPhase(unit) == ir::Phase::Forward)
        (findHost(unit) ? companions : connected).push_back(unit);
    auto isState = [&](ReadOp read) { return memory(*read).getRole() == Role::State; };
    for (const UnitGroup &group : groupByStates(connected, isState)) {
      PlanUnit &planned = graph.units.emplace_back();
      planned.name = UnitOp(group.units.front()).getName().str();
      planned.sharedState = group.state;
      for (UnitOp unit : group.units)
        addNodes(unit, static_cast<int>(graph.units.size()) - 1);
    }
    for (UnitOp unit : companions)
      addNodes(unit, indices.lookup(findHost(unit).getName()));
  }

  /// Constants, which each kernel that reads one has of its own, stand for no place in the plan.
  void addNodes(UnitOp unit, int index) {
    indices[unit.getName()] = index;
    std::vector<std::string> &nodes = graph.units[index].nodes;
    for (NodeOp node : unit.getBody().getOps<NodeOp>())
      if (!isConstant(node) || llvm::hasSingleElement(unit.getBody().getOps<NodeOp>()))
        nodes.push_back(node.getName().str());
  }

  static bool isForward(Operation *op) {
    auto unit = dyn_cast_or_null<UnitOp>(op);
    return unit && taskPhase(unit) == ir::Phase::Forward;
  }

  static bool isConnected(UnitOp unit) {
    return llvm::any_of(unit.getOperands(),
                        [&](Value operand) { return isForward(operand.getDefiningOp()); }) ||
           llvm::any_of(unit->getUsers(), isForward);
  }

  /// What is summed into a metric.
  UnitOp summedInto(StringRef metric) {
    for (auto sum : train.getOps<AccumulateOp>())
      if (sum.getMemory() == metric)
        return sum.getValue().getDefiningOp<UnitOp>();
    return {};
  }

  /// A unit that no other unit of the forward pass knows makes no stage of its own: it is planned
  /// with a unit that reads the same. So is the weight of the loss with the loss: an asynchronous
  /// stage reports one divided by the other. Null for any other.
  UnitOp findHost(UnitOp unit) {
    if (unit == lossWeight && loss && loss != unit && llvm::none_of(unit->getUsers(), isForward))
      return loss;
    if (isConnected(unit))
      return {};
    for (Value operand : unit.getOperands())
      for (Operation *user : operand.getUsers())
        if (auto host = dyn_cast<UnitOp>(user);
            host && taskPhase(host) == ir::Phase::Forward && isConnected(host))
          return host;
    return {};
  }

  /// The forward unit that a unit is planned with, or -1.
  int indexOf(UnitOp unit) {
    auto forward = taskPhase(unit) == ir::Phase::Forward ? unit.getName() : unit.getOrigin();
    auto found = indices.find(forward);
    return found == indices.end() ? -1 : found->second;
  }

  static bool onlyAccumulated(UnitOp unit) {
    return llvm::all_of(unit->getUsers(), [](Operation *user) { return isa<AccumulateOp>(user); });
  }

  void addCosts(UnitOp unit) {
    int index = indexOf(unit);
    if (index < 0)
      return;
    PlanUnit &planned = graph.units[index];
    double seconds = unit.getSeconds() ? unit.getSeconds()->convertToDouble() : 0;
    switch (taskPhase(unit)) {
    case ir::Phase::Forward:
      planned.forwardSeconds += seconds;
      break;
    case ir::Phase::Backward:
      (onlyAccumulated(unit) ? planned.backwardWeightSeconds : planned.backwardInputSeconds) +=
          seconds;
      break;
    default:
      planned.updateSeconds += seconds;
      break;
    }
    planned.workspaceBytes =
        std::max(planned.workspaceBytes,
                 libraryBytes + (unit.getKernel() ? unit.getKernel()->getWorkspace() : 0));
    addInputs(unit, index);
  }

  /// An input lies in the slots of the stages that read it; a view reads nothing itself.
  void addInputs(UnitOp unit, int index) {
    if (isView(unit))
      return;
    for (Value operand : unit.getOperands()) {
      auto read = dyn_cast_or_null<ReadOp>(behindViews(operand).getDefiningOp());
      if (read && isInput(read) && inputs.insert({index, read.getMemory().str()}).second)
        graph.units[index].inputBytes += bytesOf(read.getType());
    }
  }

  MemoryOp memory(Operation &op) {
    FlatSymbolRefAttr name = memoryOf(&op);
    return name ? symbols.lookup<MemoryOp>(name.getValue()) : MemoryOp();
  }

  bool isInput(ReadOp read) {
    MemoryOp found = memory(*read);
    return found && found.getRole() == Role::Input && found.getRate() == Rate::Microbatch;
  }

  /// Bytes of weights, gradient sums and optimizer state go to the first unit that touches them.
  void addMemory(Operation &op) {
    MemoryOp touched = memory(op);
    if (!touched || counted.contains(touched))
      return;
    Value value = storedValue(&op);
    UnitOp unit = value ? value.getDefiningOp<UnitOp>() : firstReader(op);
    int index = unit ? indexOf(unit) : -1;
    if (index < 0)
      return;
    counted.insert(touched);
    int64_t bytes = bytesOf(touched.getType());
    PlanUnit &planned = graph.units[index];
    switch (touched.getRole()) {
    case Role::State:
      planned.stateBytes += bytes;
      [[fallthrough]];
    case Role::Weight:
      planned.parameterBytes += bytes;
      break;
    case Role::Gradient:
      graph.units[firstAdders.try_emplace(touched, index).first->second].gradientBytes += bytes;
      break;
    case Role::Optimizer:
      planned.optimizerBytes += bytes;
      break;
    default:
      break;
    }
  }

  /// Of each sum the first of the units that are planned with what adds to it, and which several
  /// add to.
  void findAdders() {
    for (auto sum : train.getOps<AccumulateOp>()) {
      auto unit = sum.getValue().getDefiningOp<UnitOp>();
      if (!unit || indexOf(unit) < 0)
        continue;
      auto [first, isNew] = firstAdders.try_emplace(memory(*sum), indexOf(unit));
      first->second = std::min(first->second, indexOf(unit));
      if (!isNew)
        joined.insert(memory(*sum));
    }
  }

  UnitOp firstReader(Operation &read) {
    UnitOp first;
    for (Operation *user : read.getUsers())
      if (auto unit = dyn_cast<UnitOp>(user); unit && indexOf(unit) >= 0)
        if (!first || unit->isBeforeInBlock(first))
          first = unit;
    return first;
  }

  /// From the last to the first: each reader of what is prepared prepares it, and so reads what
  /// that takes.
  void findReaders() {
    llvm::DenseMap<Operation *, std::set<int>> leadsTo;
    for (Operation &op : llvm::reverse(train.getBody().front())) {
      std::set<int> &units = leadsTo[&op];
      auto unit = dyn_cast<UnitOp>(op);
      if (unit && taskPhase(unit) != ir::Phase::Prepare) {
        if (indexOf(unit) >= 0)
          units.insert(indexOf(unit));
      } else if (unit || isRead(&op)) {
        for (Operation *user : op.getUsers())
          if (auto later = leadsTo.find(user); later != leadsTo.end())
            units.insert(later->second.begin(), later->second.end());
      } else if (storedValue(&op)) {
        units = readers[memory(op)];
      }
      if (isRead(&op))
        readers[memory(op)].insert(units.begin(), units.end());
    }
  }

  /// Weights that are planned with several units, each of which reads it. Under asynchronous
  /// schedules the first of them alone has it, and sends it (addPlanValues).
  void addTied() {
    for (Operation &op : train.getOps()) {
      Value value = storedValue(&op);
      MemoryOp weight = memory(op);
      auto update = value ? value.getDefiningOp<UnitOp>() : UnitOp();
      if (!update || weight.getRole() != Role::Weight)
        continue;
      if (const std::set<int> &units = readers[weight]; units.size() > 1)
        addTied(weight, update, units);
    }
  }

  /// Constants and what is prepared for units to read: each stage has what its units read.
  void addReads() {
    for (auto read : train->getParentOfType<ModuleOp>().getOps<MemoryOp>()) {
      const Role role = read.getRole();
      const bool isOnce = read.getRate() == Rate::Once;
      if (role != Role::Constant && role != Role::Derived && !(role == Role::Input && isOnce))
        continue;
      const std::set<int> &units = readers[read];
      if (units.empty())
        continue;
      const int64_t bytes = bytesOf(read.getType());
      const int64_t ofVersion = role == Role::Derived && !isOnce ? bytes : 0;
      PlanUnit &first = graph.units[*units.begin()];
      first.parameterBytes += ofVersion;
      first.constantBytes += bytes - ofVersion;
      if (units.size() > 1)
        graph.sharedReads.push_back({{units.begin(), units.end()}, ofVersion, bytes - ofVersion});
    }
  }

  void addTied(MemoryOp weight, UnitOp update, const std::set<int> &units) {
    TiedWeight &tied = graph.tied.emplace_back();
    tied.units.assign(units.begin(), units.end());
    tied.parameterBytes = tied.gradientBytes = bytesOf(weight.getType());
    std::set<Operation *> states;
    int64_t temporaries = 0;
    collectStates(update, states, temporaries);
    // Each stage with one of them updates it.
    for (int unit : units)
      for (int64_t PlanUnit::*most : {&PlanUnit::temporaryBytes, &PlanUnit::splitTemporaryBytes})
        graph.units[unit].*most = std::max(graph.units[unit].*most, temporaries);
    for (Operation *state : states)
      if (cast<MemoryOp>(state).getRole() == Role::Optimizer)
        tied.optimizerBytes += bytesOf(cast<MemoryOp>(state).getType());
      else
        tied.sumsTogether |= joined.contains(state);
  }

  /// The memories of the optimizer and of gradients that an update reads, and those that update
  /// what it reads, with the bytes that live in them at most.
  void collectStates(UnitOp update, std::set<Operation *> &states, int64_t &temporaries) {
    temporaries = std::max(temporaries, live.lookup(update));
    for (Value operand : update.getOperands()) {
      Operation *made = operand.getDefiningOp();
      if (auto unit = dyn_cast_or_null<UnitOp>(made); unit && taskPhase(unit) == ir::Phase::Update)
        collectStates(unit, states, temporaries);
      else if (made && isRead(made))
        if (MemoryOp state = memory(*made);
            state && (state.getRole() == Role::Optimizer || state.getRole() == Role::Gradient))
          states.insert(state);
    }
  }

  SymbolTable symbols;
  func::FuncOp train;
  UnitOp loss, lossWeight;  ///< null where none is summed
  int64_t libraryBytes = 0; ///< of all kernels
  PlanGraph graph;
  llvm::StringMap<int> indices;
  LiveBytes live;
  std::set<std::pair<int, std::string>> inputs;
  llvm::DenseSet<Operation *> counted;
  llvm::DenseMap<Operation *, int> firstAdders; ///< by sum of gradients
  llvm::DenseSet<Operation *> joined;           ///< sums of several uses
  llvm::DenseMap<Operation *, std::set<int>> readers; ///< by memory: the units it is read with
};

} // namespace

PlanGraph makePlanGraph(ModuleOp module) { return GraphBuilder(module).build(); }

} // namespace pdc
