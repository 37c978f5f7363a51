#include "passes/Buffers.h"

#include "compiler/Error.h"
#include "compiler/ir/Partition.h"
#include "passes/Values.h"

#include <algorithm>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

llvm::SmallVector<InPlace> offeredInPlace(UnitOp unit) {
  llvm::SmallVector<InPlace> offers;
  for (ArrayRef<int64_t> pairs = unit.getInPlace().value_or(ArrayRef<int64_t>()); !pairs.empty();
       pairs = pairs.drop_front(2))
    offers.push_back({static_cast<unsigned>(pairs[0]), static_cast<unsigned>(pairs[1])});
  if (unit.getKernel() && unit.getKernel()->getName() == "Elementwise")
    for (unsigned result = 0; result < unit.getNumResults(); ++result)
      for (unsigned operand = 0; operand < unit.getNumOperands(); ++operand)
        if (unit.getOperand(operand).getType() == unit.getResult(result).getType())
          offers.push_back({operand, result});
  return offers;
}

bool isPersistent(MemoryOp memory) {
  switch (memory.getRole()) {
  case Role::Activation:
  case Role::Inbox:
  case Role::Outbox:
  case Role::Scratch:
    return false;
  case Role::Input:
    return memory.getRate() != Rate::Microbatch;
  default:
    return true;
  }
}

MemoryOp Buffer::persistent() const {
  auto found = std::ranges::find_if(memories, [](MemoryOp memory) { return isPersistent(memory); });
  return found == memories.end() ? MemoryOp() : *found;
}

bool Buffer::has(Role role) const {
  return std::ranges::any_of(memories, [&](MemoryOp memory) { return memory.getRole() == role; });
}

FirstTasks::FirstTasks(ProgramOp program) {
  program.walk([&](Operation *op) {
    if (FlatSymbolRefAttr name = memoryOf(op))
      tasks.try_emplace(name.getAttr(), op->getParentOfType<TaskOp>());
  });
}

Buffers::Buffers(ProgramOp program) : firstTasks(program) {
  addMembers(program);
  joinStores(program);
}

int Buffers::add(Buffer buffer, Type type) {
  const int id = static_cast<int>(parents.size());
  parents.push_back({id, 0});
  buffer.end = bytesOf(type);
  buffers.push_back(std::move(buffer));
  return id;
}

void Buffers::addMembers(ProgramOp program) {
  for (auto memory : program.getOps<MemoryOp>()) {
    memories[memory] = add({{}, {memory}}, memory.getType());
    names[memory.getSymNameAttr()] = memory;
  }
  for (auto stage : program.getOps<StageOp>())
    for (auto task : stage.getOps<TaskOp>())
      for (Operation &op : task.getOps())
        for (Value result : op.getResults())
          if (!isa<NoneType>(result.getType()))
            values[result] = add({{result}, {}}, result.getType());
}

void Buffers::joinStores(ProgramOp program) {
  auto joinOp = [&](Operation &op) {
    auto accumulate = dyn_cast<AccumulateOp>(op);
    bool shares = !accumulate || accumulate.getFused();
    if (FlatSymbolRefAttr name = memoryOf(&op); name && shares) {
      Value value = isRead(&op) ? op.getResult(0) : storedValue(&op);
      join(idOf(value), memories.lookup(memory(name)));
    }
    auto unit = dyn_cast<UnitOp>(op);
    if (isView(&op))
      join(op.getOperand(0), op.getResult(0));
    else if (unit && unit.getInPlace())
      for (ArrayRef<int64_t> pairs = *unit.getInPlace(); !pairs.empty();
           pairs = pairs.drop_front(2))
        join(unit.getOperand(pairs[0]), unit.getResult(pairs[1]));
    joinParts(&op);
  };
  for (auto stage : program.getOps<StageOp>())
    for (auto task : stage.getOps<TaskOp>())
      for (Operation &op : task.getOps())
        joinOp(op);
}

void Buffers::joinParts(Operation *op) {
  if (std::optional<Partition> partition = placedPartitionOf(op))
    for (auto [part, offset] : llvm::zip_equal(partition->parts, partition->offsets))
      join(idOf(partition->whole), idOf(part), offset);
}

Buffers::Place Buffers::placeOf(int id) const {
  Place place{id, 0};
  while (parents[place.root].root != place.root)
    place = {parents[place.root].root, place.behind + parents[place.root].behind};
  return place;
}

int64_t Buffers::offsetOf(int id) const {
  const Place place = placeOf(id);
  return place.behind - buffers[place.root].begin;
}

bool Buffers::overlap(Value a, Value b) const {
  const Place first = placeOf(idOf(a)), second = placeOf(idOf(b));
  return first.root == second.root && first.behind < second.behind + bytesOf(b.getType()) &&
         second.behind < first.behind + bytesOf(a.getType());
}

void Buffers::join(int one, int other, int64_t behind) {
  const Place first = placeOf(one), second = placeOf(other);
  int a = first.root, b = second.root;
  // How far the root of b lies behind that of a.
  int64_t shift = first.behind + behind - second.behind;
  if (a == b) {
    if (shift != 0)
      throw Error("a value has two places in one buffer");
    return;
  }
  MemoryOp kept = buffers[a].persistent(), also = buffers[b].persistent();
  auto isSlot = [](const Buffer &buffer) {
    return std::ranges::any_of(buffer.memories, [](MemoryOp m) { return !isPersistent(m); });
  };
  if (kept && also)
    throw Error("memories '" + kept.getSymName().str() + "' and '" + also.getSymName().str() +
                "' are given the same value, and a write is never a copy");
  if ((kept && isSlot(buffers[b])) || (also && isSlot(buffers[a])))
    throw Error("memory '" + (kept ? kept : also).getSymName().str() +
                "' would have to be copied into '" +
                (kept ? buffers[b] : buffers[a]).memories[0].getSymName().str() +
                "', and a write is never a copy");
  if (b < a) {
    std::swap(a, b);
    shift = -shift;
  }
  parents[b] = {a, shift};
  buffers[a].begin = std::min(buffers[a].begin, buffers[b].begin + shift);
  buffers[a].end = std::max(buffers[a].end, buffers[b].end + shift);
  llvm::append_range(buffers[a].values, buffers[b].values);
  llvm::append_range(buffers[a].memories, buffers[b].memories);
  buffers[b] = {};
}

MemoryOp Buffers::memory(FlatSymbolRefAttr name) const {
  return cast<MemoryOp>(names.lookup(name.getAttr()));
}

std::vector<const Buffer *> Buffers::all() const {
  std::vector<const Buffer *> found;
  for (size_t id = 0; id < buffers.size(); ++id)
    if (parents[id].root == static_cast<int>(id))
      found.push_back(&buffers[id]);
  return found;
}

static std::string slotsOf(TaskOp task) {
  return "slots." + std::to_string(task ? cast<StageOp>(task->getParentOp()).getId() : 0);
}

std::string Buffers::regionOf(MemoryOp memory) const {
  if (isPersistent(memory))
    return memory.getDepth().value_or(1) > 1 ? "versions" : "fixed";
  TaskOp task = firstTasks.of(memory.getSymNameAttr());
  bool evaluates = task && task.getPhase() == ir::Phase::Evaluate;
  return evaluates && memory.getRole() != Role::Input ? "evaluation" : slotsOf(task);
}

std::string Buffers::regionOf(Value value) const {
  const Buffer &buffer = of(value);
  if (buffer.memories.empty())
    return "scratch";
  auto task = value.getDefiningOp()->getParentOfType<TaskOp>();
  if (!isPersistent(buffer.memories[0]))
    return task.getPhase() == ir::Phase::Evaluate ? "evaluation" : slotsOf(task);
  return regionOf(buffer.memories[0]);
}

} // namespace pdc
