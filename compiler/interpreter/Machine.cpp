#include "compiler/interpreter/Machine.h"

#include "compiler/Error.h"
#include "compiler/interpreter/Inputs.h"
#include "compiler/interpreter/Operations.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/TensorName.h"

namespace pdc::interpreter {

using ir::Phase;
using ir::Role;

static bool isVersioned(const Memory &memory) {
  Role role = memory.role;
  return role == Role::Weight || role == Role::Derived;
}

/// Has a copy per microbatch in flight.
static bool isPerMicrobatch(const Memory &memory) {
  switch (memory.role) {
  case Role::Activation:
  case Role::Scratch:
  case Role::Inbox:
  case Role::Outbox:
    return true;
  default:
    return false;
  }
}

static bool isSum(const Memory &memory) {
  return memory.role == Role::Gradient || memory.role == Role::Metric ||
         memory.role == Role::Gathered;
}

std::optional<Tensor> Machines::total(const std::string &name) const {
  std::optional<Tensor> sum, reduced;
  for (const auto &machine : machines) {
    Memory *memory = machine->find(name);
    if (!memory || !isSum(*memory))
      continue;
    const Tensor &part = memory->held.at(0).value;
    if (!memory->fresh)
      reduced = part;
    else if (!sum)
      sum = part;
    else
      for (size_t i = 0; i < part.data.size(); ++i)
        sum->data[i] += part.data[i];
  }
  return sum ? sum : reduced;
}

void Machines::reduce(const std::string &name) {
  std::optional<Tensor> sum = total(name);
  for (const auto &machine : machines)
    if (Memory *memory = machine->find(name); memory && isSum(*memory)) {
      memory->held[0] = {0, *sum};
      memory->fresh = false;
    }
}

Machine::Machine(Machines &all, std::string name, int64_t rank, mlir::Region &region)
    : others(all), name(std::move(name)), rank(rank) {
  for (auto op : region.getOps<ir::MemoryOp>()) {
    Memory memory{op, op.getSymName().str(), op.getRole(), toTensorType(op.getType())};
    memory.depth = op.getDepth().value_or(0);
    bool hasContents =
        !isPerMicrobatch(memory) && op.getRole() != Role::Input && op.getRole() != Role::Derived;
    if (hasContents)
      memory.held[0] = {0, initialValue(all.input, op)};
    memories.emplace(memory.name, memory);
  }
}

Memory *Machine::find(llvm::StringRef memory) {
  auto it = memories.find(memory.str());
  return it == memories.end() ? nullptr : &it->second;
}

Memory &Machine::get(llvm::StringRef memory) {
  if (Memory *found = find(memory))
    return *found;
  throw Error(name + ": there is no memory '" + memory.str() + "'");
}

void Machine::refuse(const Memory &memory, const Run &run, const std::string &what) const {
  throw Error(name + ": stage " + std::to_string(run.stage) + ", " +
              ir::stringifyPhase(run.phase).str() + " of microbatch " +
              std::to_string(run.microbatch) + ": memory '" + memory.name + "' " + what);
}

void Machine::run(llvm::ArrayRef<mlir::Operation *> operations, const Run &run) {
  int64_t version = updates[run.stage];
  if (run.phase == Phase::Forward) {
    readVersions[{run.stage, run.microbatch}] = version;
    if (run.stage == 0)
      others.entryVersions[run.microbatch] = version;
  }
  runOperations(*this, operations, run);
  if (run.phase == Phase::Update)
    ++updates[run.stage];
}

int64_t Machine::slotOf(const Run &run) const {
  // Evaluation has copies of its own.
  if (run.phase == Phase::Evaluate)
    return -1 - run.microbatch;
  auto table = slots.find(run.stage);
  if (table == slots.end() || table->second.empty())
    return run.microbatch;
  return table->second[run.microbatch % table->second.size()];
}

/// What the runtime knows once the sums of a minibatch are known everywhere.
double Machine::gradientScale() const {
  if (others.asynchronous)
    return 1 / static_cast<double>(others.microbatches);
  std::optional<Tensor> weight = others.total("pdc.loss_weight");
  if (!weight || weight->data.size() != 1)
    throw Error(name +
                ": 'pdc.gradient_scale' is read, but no program sums a scalar 'pdc.loss_weight'");
  return 1 / weight->data.at(0);
}

Tensor Machine::readInput(Memory &memory, const Run &run) {
  std::string key = tensorNameOf(memory.op).str();
  int64_t step = run.microbatch / others.microbatches + 1;
  if (key == "pdc.learning_rate")
    return Tensor::scalar(memory.type.element, others.input.learningRate);
  if (key.starts_with("pdc.learning_rate.times_"))
    return Tensor::scalar(
        memory.type.element,
        others.input.learningRate *
            llvm::cast<mlir::FloatAttr>(*memory.op.getInitial()).getValueAsDouble());
  if (key == "pdc.step")
    return Tensor::scalar(memory.type.element, static_cast<double>(step));
  if (key == "pdc.gradient_scale")
    return Tensor::scalar(memory.type.element, gradientScale());
  if (key == "pdc.present_samples")
    return Tensor{memory.type, std::vector<double>(memory.type.elementCount(), 1)};
  if (key == "pdc.random")
    return randomNumbers(others.input, memory.type, step, run.microbatch);
  if (memory.op.getRate() == ir::Rate::Once)
    return microbatchInput(others.input, memory.op, 0, false);
  if (memory.op.getRate() == ir::Rate::Update)
    return microbatchInput(others.input, memory.op, step, false);
  return microbatchInput(others.input, memory.op, run.microbatch, run.phase == Phase::Evaluate);
}

Tensor Machine::read(llvm::StringRef key, const Run &run) {
  Memory &memory = get(key);
  if (memory.role == Role::Input)
    return readInput(memory, run);
  if (isVersioned(memory))
    return readVersion(key, ir::Version::Latest, run);
  if (isPerMicrobatch(memory))
    return take(key, run);
  return memory.held.at(0).value;
}

bool Machine::holds(const Memory &memory, const Run &run) const {
  auto it = memory.held.find(slotOf(run));
  return it != memory.held.end() && it->second.tag == run.microbatch;
}

Tensor Machine::take(llvm::StringRef key, const Run &run) {
  Memory &memory = get(key);
  auto it = memory.held.find(slotOf(run));
  if (it == memory.held.end())
    refuse(memory, run, "has no value yet");
  if (it->second.tag != run.microbatch)
    refuse(memory, run,
           "holds microbatch " + std::to_string(it->second.tag) + " in slot " +
               std::to_string(it->first));
  return it->second.value;
}

void Machine::put(llvm::StringRef key, Tensor value, const Run &run) {
  get(key).held[slotOf(run)] = {run.microbatch, std::move(value)};
}

void Machine::checkShape(const Memory &memory, const Tensor &value, const Run &run) const {
  if (value.type.shape != memory.type.shape)
    refuse(memory, run, "is " + memory.type.toString() + ", but is given " + value.type.toString());
}

void Machine::write(llvm::StringRef key, Tensor value, const Run &run) {
  Memory &memory = get(key);
  checkShape(memory, value, run);
  if (isPerMicrobatch(memory))
    return put(key, std::move(value), run);
  if (isVersioned(memory))
    return holdVersion(memory, updates[run.stage], std::move(value), run);
  memory.held[0] = {0, std::move(value)};
}

void Machine::commit(llvm::StringRef key, Tensor value, const Run &run) {
  Memory &memory = get(key);
  checkShape(memory, value, run);
  holdVersion(memory, updates[run.stage] + 1, std::move(value), run);
}

/// Version v lies in copy v % depth; without a depth every version stays.
static int64_t ringSlot(const Memory &memory, int64_t version) {
  return memory.depth > 0 ? version % memory.depth : version;
}

void Machine::holdVersion(Memory &memory, int64_t version, Tensor value, const Run &run) {
  if (!isVersioned(memory))
    refuse(memory, run, "has no versions, since it is no weight");
  memory.held[ringSlot(memory, version)] = {version, std::move(value)};
  memory.newest = std::max(memory.newest, version);
}

int64_t Machine::wantedVersion(const Memory &memory, ir::Version version, const Run &run) {
  switch (version) {
  case ir::Version::Latest:
    return memory.newest;
  case ir::Version::Previous:
    return std::min(memory.newest, std::max<int64_t>(0, run.microbatch / others.microbatches - 1));
  case ir::Version::AtEntry: {
    auto it = others.entryVersions.find(run.microbatch);
    if (it == others.entryVersions.end())
      refuse(memory, run, "is read at a version that is not known, since stage 0 has not run");
    return std::min(it->second, memory.newest);
  }
  case ir::Version::OfMicrobatch:
    break;
  }
  auto it = readVersions.find({run.stage, run.microbatch});
  if (it == readVersions.end())
    refuse(memory, run, "is read at its forward pass's version, but that has not run");
  return std::min(it->second, memory.newest);
}

Tensor Machine::readVersion(llvm::StringRef key, ir::Version version, const Run &run) {
  Memory &memory = get(key);
  if (!isVersioned(memory))
    refuse(memory, run, "has no versions, since it is no weight");
  int64_t wanted = wantedVersion(memory, version, run);
  auto it = memory.held.find(ringSlot(memory, wanted));
  if (it == memory.held.end())
    refuse(memory, run, "has no version " + std::to_string(wanted) + " yet");
  if (it->second.tag != wanted)
    refuse(memory, run,
           "holds version " + std::to_string(it->second.tag) + ", expected " +
               std::to_string(wanted));
  return it->second.value;
}

void Machine::accumulate(llvm::StringRef key, Tensor value, const Run &run) {
  Memory &memory = get(key);
  if (!isSum(memory))
    refuse(memory, run, "cannot be added to: its role is neither gradient nor metric");
  checkShape(memory, value, run);
  Held &sum = memory.held[0];
  if (memory.fresh && memory.sumOfUpdate == updates[run.stage])
    for (size_t i = 0; i < value.data.size(); ++i)
      sum.value.data[i] += value.data[i];
  else
    sum.value = std::move(value);
  memory.fresh = true;
  memory.sumOfUpdate = updates[run.stage];
}

} // namespace pdc::interpreter
