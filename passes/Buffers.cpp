#include "passes/Buffers.h"

#include "compiler/Error.h"
#include "passes/Values.h"

#include <algorithm>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

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

int64_t Buffer::bytes() const {
  int64_t most = 0;
  for (Value value : values)
    most = std::max(most, bytesOf(value.getType()));
  for (MemoryOp memory : memories)
    most = std::max(most, bytesOf(memory.getType()));
  return most;
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

int Buffers::add(Buffer buffer) {
  parents.push_back(static_cast<int>(parents.size()));
  buffers.push_back(std::move(buffer));
  return parents.back();
}

void Buffers::addMembers(ProgramOp program) {
  for (auto memory : program.getOps<MemoryOp>()) {
    memories[memory] = add({{}, {memory}});
    names[memory.getSymNameAttr()] = memory;
  }
  for (auto stage : program.getOps<StageOp>())
    for (auto task : stage.getOps<TaskOp>())
      for (Operation &op : task.getOps())
        for (Value result : op.getResults())
          if (!isa<NoneType>(result.getType()))
            values[result] = add({{result}, {}});
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
  };
  for (auto stage : program.getOps<StageOp>())
    for (auto task : stage.getOps<TaskOp>())
      for (Operation &op : task.getOps())
        joinOp(op);
}

int Buffers::root(int id) const {
  while (parents[id] != id)
    id = parents[id];
  return id;
}

void Buffers::join(int a, int b) {
  a = root(a);
  b = root(b);
  if (a == b)
    return;
  MemoryOp first = buffers[a].persistent(), second = buffers[b].persistent();
  auto isSlot = [](const Buffer &buffer) {
    return std::ranges::any_of(buffer.memories, [](MemoryOp m) { return !isPersistent(m); });
  };
  if (first && second)
    throw Error("memories '" + first.getSymName().str() + "' and '" + second.getSymName().str() +
                "' are given the same value, and a write is never a copy");
  if ((first && isSlot(buffers[b])) || (second && isSlot(buffers[a])))
    throw Error("memory '" + (first ? first : second).getSymName().str() +
                "' would have to be copied into '" +
                (first ? buffers[b] : buffers[a]).memories[0].getSymName().str() +
                "', and a write is never a copy");
  if (b < a)
    std::swap(a, b);
  parents[b] = a;
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
    if (parents[id] == static_cast<int>(id))
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
