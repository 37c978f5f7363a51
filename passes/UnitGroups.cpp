#include "passes/UnitGroups.h"
#include "passes/Refusal.h"
#include "passes/UnitFacts.h"
#include "passes/Values.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// A kernel that runs so many nodes on what it has loaded waits for no memory any more; longer ones
/// take compilers and this search time that grows with their square.
static constexpr size_t kMostNodesOfUnit = 64;

UnitGroups::UnitGroups(func::FuncOp function, UnitOrigins &origins, const DeviceOptions &options)
    : function(function), names(function), origins(origins), options(options),
      isTrain(function.getSymName() == "train") {
  for (auto node : function.getOps<NodeOp>())
    nodeNamed[node.getName()] = node;
  for (auto read : function.getOps<WeightVersionOp>())
    readsOf[read.getMemory()].push_back(read);
}

/// A constant goes into the units that read it; it is one itself only where a memory takes it.
bool UnitGroups::isUnitNode(Operation *op) {
  if (!isConstant(op))
    return isa<NodeOp>(op);
  return llvm::any_of(op->getUsers(), [](Operation *user) { return !isa<NodeOp>(user); });
}

/// 1. Checks. 2. Forward nodes, so that their units stand before others refer to them. 3. The
/// others.
LogicalResult UnitGroups::form() {
  if (failed(checkOrigins()))
    return failure();
  if (!isTrain)
    findEvaluationOrigins();
  auto isForward = [](NodeOp node) { return node.getPhase() == ir::Phase::Forward; };
  for (bool forward : {true, false})
    for (auto node : function.getOps<NodeOp>())
      if (isForward(node) == forward && isUnitNode(node) && !refuseAt(node, [&] { place(node); }))
        return failure();
  finish();
  return success();
}

LogicalResult UnitGroups::checkOrigins() {
  for (auto node : function.getOps<NodeOp>()) {
    if (!node.getPhase() || !node.getRate())
      return node.emitError() << "node '" << node.getName()
                              << "' has no phase or no rate; run label-phases first";
    if (!refuseAt(node, [&] { checkTypes(node); }))
      return failure();
    if (node.getOrigin() && !nodeNamed.contains(*node.getOrigin()))
      return node.emitError() << "node '" << node.getName() << "' comes from node '"
                              << *node.getOrigin() << "', which is not in this function";
  }
  return success();
}

void UnitGroups::place(NodeOp node) {
  if (append(node))
    return;
  groupOf[node] = static_cast<int>(groups.size());
  groups.push_back({{node}, *node.getPhase(), *node.getRate(), "", ""});
  prepend(node);
}

bool UnitGroups::append(NodeOp node) {
  if (isViewNode(node))
    return false;
  for (Value operand : node.getOperands()) {
    auto found = groupOf.find(operand.getDefiningOp());
    if (found == groupOf.end())
      continue;
    const bool isAlone = isReader(operand, node);
    if ((isAlone || canRemake(operand, node)) && append(node, found->second)) {
      if (!isAlone)
        remake(operand, node);
      absorb(node);
      return true;
    }
  }
  return false;
}

/// Whether the node, and no other, reads a value.
bool UnitGroups::isReader(Value value, NodeOp node) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) { return user == node; });
}

/// The node as epilogue of a group whose last result it alone reads.
bool UnitGroups::append(NodeOp node, int target) {
  Group &group = groups[target];
  NodeOp last = group.nodes.back();
  if (group.nodes.size() == kMostNodesOfUnit ||
      !llvm::is_contained(node.getOperands(), last->getResult(0)) || isViewNode(last) ||
      isConstant(last) || !arePlannedTogether(last, node) || !canWaitFor(group, node))
    return false;
  UnitFacts facts(group.nodes, node);
  UnitNode described = facts.describe(node);
  if (!canAppend(facts.view(), described, options))
    return false;
  group.nodes.push_back(node);
  groupOf[node] = target;
  return true;
}

/// Loops whose last results the last node of a loop alone reads, or the backward pass may make
/// again, become one with it: both factors of a gate.
void UnitGroups::absorb(NodeOp last) {
  const int target = groupOf[last];
  for (Value operand : last.getOperands()) {
    auto found = groupOf.find(operand.getDefiningOp());
    if (found == groupOf.end() || found->second == target)
      continue;
    const bool isAlone = isReader(operand, last);
    if (!isAlone && !canRemake(operand, last))
      continue;
    Group &before = groups[found->second], &group = groups[target];
    if (before.nodes.size() + group.nodes.size() > kMostNodesOfUnit ||
        before.nodes.back() != operand.getDefiningOp() ||
        !arePlannedTogether(before.nodes.back(), last) || !canWaitFor(before, last))
      continue;
    SmallVector<NodeOp> nodes(before.nodes);
    nodes.append(group.nodes);
    llvm::sort(nodes, [](NodeOp a, NodeOp b) { return a->isBeforeInBlock(b); });
    if (!isLoop(UnitFacts(nodes, {}).view(), options))
      continue;
    if (!isAlone)
      remake(operand, last);
    for (NodeOp node : before.nodes)
      groupOf[node] = target;
    before.nodes.clear();
    group.nodes = std::move(nodes);
  }
}

/// Whether the backward pass may make a value again, that the node reads, where it reads it. Made
/// by a loop of one tensor, which is kept in its place, and read by loops only, so that no memory
/// is passed over to make it or to keep it.
bool UnitGroups::canRemake(Value value, NodeOp reader) {
  auto node = value.getDefiningOp<NodeOp>();
  auto isTensor = [](Value operand) {
    return !isConstant(operand.getDefiningOp()) && !operand.getDefiningOp<AbsentOp>();
  };
  if (!isTrain || node.getPhase() != ir::Phase::Forward ||
      groups[groupOf[node]].nodes.size() != 1 || llvm::count_if(node.getOperands(), isTensor) != 1)
    return false;
  const TensorType made = toTensorType(value.getType()),
                   kept = toTensorType((*llvm::find_if(node.getOperands(), isTensor)).getType());
  if (kept.shape != made.shape || kept.bytes() > made.bytes())
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *op) {
    auto user = dyn_cast<NodeOp>(op);
    if (!user || user == reader)
      return user == reader;
    const StringRef origin = user.getOrigin().value_or("");
    UnitFacts facts({node, user}, {});
    return (origin == node.getName() || origin == reader.getName()) &&
           isLoop(facts.view(), options);
  });
}

/// Gives all readers of a value but one a node of their own that makes it.
void UnitGroups::remake(Value value, NodeOp reader) {
  auto node = value.getDefiningOp<NodeOp>();
  llvm::SetVector<Operation *> users(value.user_begin(), value.user_end());
  users.remove(reader);
  for (Operation *op : llvm::reverse(users)) { // in the block's order, whose last use comes first
    auto user = cast<NodeOp>(op);
    OpBuilder builder(user);
    auto again = cast<NodeOp>(builder.clone(*node));
    again.setName(names.unique(node.getName() + "/again"));
    again.setOrigin(node.getName());
    again.setPhase(user.getPhase());
    again.setRate(user.getRate());
    user->replaceUsesOfWith(value, again->getResult(0));
  }
}

/// Nodes that the hero reads, as its prologue.
void UnitGroups::prepend(NodeOp hero) {
  for (auto [i, operand] : llvm::enumerate(hero.getOperands())) {
    auto found = groupOf.find(operand.getDefiningOp());
    if (found == groupOf.end())
      continue;
    Group &before = groups[found->second];
    if (before.nodes.size() != 1 || isViewNode(before.nodes.front()) ||
        isConstant(before.nodes.front()) || !arePlannedTogether(before.nodes.front(), hero) ||
        !canWaitFor(before, hero))
      continue;
    UnitFacts facts(before.nodes, hero);
    UnitNode prologue = facts.describe(before.nodes.front()), described = facts.describe(hero);
    if (!canPrepend(facts.view(), prologue, described, static_cast<int>(i), !operand.hasOneUse(),
                    options))
      continue;
    Group &group = groups[groupOf[hero]];
    group.nodes.insert(group.nodes.begin(), before.nodes.front());
    groupOf[before.nodes.front()] = groupOf[hero];
    before.nodes.clear();
  }
}

/// Fusing must not tie together what the plan may put on different stages or run at different
/// times.
bool UnitGroups::arePlannedTogether(NodeOp a, NodeOp b) {
  if (a.getPhase() != b.getPhase() || a.getRate() != b.getRate())
    return false;
  return a.getPhase() == ir::Phase::Forward || plannedWith(a) == plannedWith(b);
}

/// A name that nodes planned together share.
std::string UnitGroups::plannedWith(NodeOp node) {
  if (!isTrain) {
    auto found = plannedUnit.find(node.getName());
    return found == plannedUnit.end() ? "" : found->second.name;
  }
  if (!node.getOrigin())
    return node.getName().str();
  NodeOp origin = nodeNamed.lookup(*node.getOrigin());
  auto found = groupOf.find(origin);
  return found == groupOf.end() ? "" : groups[found->second].nodes.front().getName().str();
}

/// Whether the group may stand where the node stands: what reads its results in between are writes
/// to memory, which can follow it.
bool UnitGroups::canWaitFor(const Group &group, NodeOp node) {
  for (NodeOp member : group.nodes)
    for (Operation *user : member->getUsers())
      if (user != node && !llvm::is_contained(group.nodes, user) && user->isBeforeInBlock(node) &&
          (!isa<WriteOp, AccumulateOp>(user) || isUsedBefore(user, node)))
        return false;
  return true;
}

void UnitGroups::finish() {
  for (Group &group : groups) {
    SmallVector<StringRef> names;
    for (NodeOp node : group.nodes)
      names.push_back(node.getName());
    group.name = llvm::join(names, "+");
  }
  for (Group &group : groups)
    if (!group.nodes.empty()) {
      group.origin = originOf(group);
      ordered.push_back(group);
    }
  llvm::sort(ordered,
             [](Group &a, Group &b) { return a.nodes.back()->isBeforeInBlock(b.nodes.back()); });
  if (isTrain)
    recordUnits();
}

std::string UnitGroups::originOf(const Group &group, int depth) {
  NodeOp first = group.nodes.front();
  if (!isTrain) {
    auto found = plannedUnit.find(first.getName());
    return found == plannedUnit.end() ? group.name : found->second.name;
  }
  const bool isRun = group.phase == ir::Phase::Forward && group.rate != Rate::Version;
  if (isRun || depth > static_cast<int>(groups.size()))
    return group.name;
  if (!first.getOrigin())
    return originOfReaders(group, depth);
  auto found = groupOf.find(nodeNamed.lookup(*first.getOrigin()));
  return found == groupOf.end() ? group.name : originOf(groups[found->second], depth + 1);
}

/// Prepared values, and views of weights, are planned with the first unit that reads them, through
/// memory or directly.
std::string UnitGroups::originOfReaders(const Group &prepared, int depth) {
  SmallVector<Operation *> readers;
  for (NodeOp node : prepared.nodes)
    for (Operation *user : node->getUsers()) {
      readers.push_back(user);
      if (auto write = dyn_cast<WriteOp>(user))
        for (WeightVersionOp read : readsOf.lookup(write.getMemory()))
          llvm::append_range(readers, read->getUsers());
    }
  llvm::sort(readers, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *reader : readers)
    if (auto found = groupOf.find(reader);
        found != groupOf.end() && &groups[found->second] != &prepared)
      return originOf(groups[found->second], depth + 1);
  return prepared.name;
}

/// Forward nodes with their own units, prepared ones with the unit that they are planned with.
void UnitGroups::recordUnits() {
  llvm::StringMap<int> positions;
  for (Group &group : ordered)
    if (group.phase == ir::Phase::Forward)
      positions.try_emplace(group.name, static_cast<int>(positions.size()));
  for (Group &group : ordered)
    if (group.phase == ir::Phase::Forward || group.phase == ir::Phase::Prepare)
      for (NodeOp node : group.nodes)
        if (!node.getOrigin())
          origins.ofNode[node.getName()] = {group.origin, positions.lookup(group.origin)};
}

/// Nodes that @train lacks are planned with the latest of the units that make or read their
/// operands: what counts correct predictions goes where the loss is, with the Cast of its scores.
/// What reads memory alone follows its reader.
void UnitGroups::findEvaluationOrigins() {
  SmallVector<NodeOp> nodes(function.getOps<NodeOp>());
  for (NodeOp node : nodes) {
    auto found = origins.ofNode.find(node.getName());
    SmallVector<Operation *> neighbours;
    for (Value operand : node.getOperands()) {
      neighbours.push_back(operand.getDefiningOp());
      llvm::append_range(neighbours, operand.getUsers());
    }
    if (found != origins.ofNode.end())
      plannedUnit[node.getName()] = found->second;
    else
      planWithLatest(node, neighbours);
  }
  auto isNew = [&](Operation *op) {
    auto node = dyn_cast<NodeOp>(op);
    return node && !origins.ofNode.contains(node.getName());
  };
  for (NodeOp node : llvm::reverse(nodes))
    if (!plannedUnit.contains(node.getName()) ||
        (isNew(node) && node->hasOneUse() && isNew(*node->user_begin())))
      planWithLatest(node, llvm::to_vector(node->getUsers()));
}

void UnitGroups::planWithLatest(NodeOp node, ArrayRef<Operation *> neighbours) {
  UnitOrigins::Unit latest{"", -1};
  for (Operation *neighbour : neighbours) {
    auto other = dyn_cast_or_null<NodeOp>(neighbour);
    auto found = other ? plannedUnit.find(other.getName()) : plannedUnit.end();
    if (found != plannedUnit.end() && found->second.position > latest.position)
      latest = found->second;
  }
  if (latest.position >= 0)
    plannedUnit[node.getName()] = latest;
}

} // namespace pdc
