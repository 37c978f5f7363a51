#include "passes/LayoutChanges.h"
#include "passes/UnitFacts.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

LayoutChanges::LayoutChanges(ModuleOp module, const DeviceOptions &options)
    : symbols(module), train(module.lookupSymbol<func::FuncOp>("train")), options(options) {
  for (auto memory : module.getOps<MemoryOp>()) {
    memories[memory.getSymName()].memory = memory;
    if (memory.getRole() == Role::Gradient || memory.getRole() == Role::Optimizer)
      memories[memory.getSymName().rsplit('/').first].followers.push_back(memory);
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    names.emplace(function, function);
    for (Operation &op : function.getOps())
      if (isa<ReadOp, WeightVersionOp>(op))
        memories[op.getAttrOfType<FlatSymbolRefAttr>("memory").getValue()].reads.push_back(
            op.getResult(0));
  }
  if (train)
    for (auto write : train.getOps<WriteOp>())
      memories[write.getMemory()].written = write;
}

MemoryOp LayoutChanges::memoryNamed(StringRef name) { return memories.lookup(name).memory; }

std::string LayoutChanges::unusedName(const Twine &base) {
  std::string name = base.str();
  for (int i = 1; symbols.lookup(name); ++i)
    name = (base + "." + Twine(i)).str();
  return name;
}

/// Whether a kernel that wants `wanted` may read what is stored as `stored`.
static bool areSame(Type type, StringRef stored, StringRef wanted) {
  if (stored == wanted)
    return true;
  if (stored.contains(':') || wanted.contains(':'))
    return false;
  TensorType tensor = toTensorType(type);
  return isRowMajor(tensor, stored) && isRowMajor(tensor, wanted);
}

Value LayoutChanges::forUnit(Value value, StringRef layout, UnitOp unit) {
  MemoryOp memory = storedMemory(value);
  if (memory && !fixed.contains(memory))
    fix(memory, layout);
  if (areSame(value.getType(), layoutOf(value.getType()), layout))
    return value;
  if (memory)
    return derived(memory, layout, unit);
  OpBuilder builder(unit);
  return shared(value, layout, {unit.getOrigin(), unit.getPhase(), unit.getRate()}, builder);
}

static bool isPreparedCast(UnitOp unit) {
  auto nodes = unit.getBody().front().getOps<NodeOp>();
  return unit.getPhase() == ir::Phase::Prepare && llvm::hasSingleElement(nodes) &&
         (*nodes.begin()).getOp() == "Cast";
}

void LayoutChanges::layOutForReaders(UnitOp cast) {
  MemoryOp memory = isPreparedCast(cast) ? storedMemory(cast.getOperand(0)) : MemoryOp();
  if (!memory || fixed.contains(memory))
    return;
  for (Operation *user : cast.getResult(0).getUsers())
    if (auto write = dyn_cast<WriteOp>(user))
      for (Value read : memories[write.getMemory()].reads)
        for (OpOperand &use : read.getUses())
          if (auto reader = dyn_cast<UnitOp>(use.getOwner()))
            return fix(memory, wantedBy(reader, use.getOperandNumber()));
}

/// The layout in which a unit's kernel reads an operand.
std::string LayoutChanges::wantedBy(UnitOp unit, unsigned operand) {
  KernelChoice choice = chooseKernel(UnitFacts(unit).view(), options);
  auto found = llvm::find(choice.arguments, static_cast<int>(operand));
  return found == choice.arguments.end() ? ""
                                         : choice.inputLayouts[found - choice.arguments.begin()];
}

Value LayoutChanges::forMemory(Value value, StringRef name, Operation *user) {
  auto memory = memoryNamed(name);
  StringRef layout = layoutOf(value.getType());
  if (memory.getRole() == Role::Derived && fixed.insert(memory).second)
    setLayout(memory, layout);
  if (areSame(value.getType(), layout, layoutOf(memory.getType())))
    return value;
  auto unit = value.getDefiningOp<UnitOp>();
  if (!unit)
    throw Error("memory '" + name.str() +
                "' is stored in another layout than the value that it takes");
  OpBuilder builder(user);
  return shared(value, layoutOf(memory.getType()),
                {unit.getOrigin(), unit.getPhase(), unit.getRate()}, builder);
}

/// The memory of a weight or constant, whose layout is free; none for any other value.
MemoryOp LayoutChanges::storedMemory(Value value) {
  StringRef name;
  if (auto read = value.getDefiningOp<WeightVersionOp>())
    name = read.getMemory();
  else if (auto read = value.getDefiningOp<ReadOp>())
    name = read.getMemory();
  else
    return {};
  auto memory = memoryNamed(name);
  bool isStored = memory.getRole() == Role::Weight || memory.getRole() == Role::Constant ||
                  memory.getRole() == Role::Derived;
  return isStored ? memory : MemoryOp();
}

/// The first reader of a weight decides. Its gradients and optimizer state are updated together
/// with it, element by element, so they follow.
void LayoutChanges::fix(MemoryOp memory, StringRef layout) {
  fixed.insert(memory);
  setLayout(memory, layout);
  if (memory.getRole() != Role::Weight)
    return;
  for (MemoryOp follower : memories[memory.getSymName()].followers)
    setLayout(follower, layout);
}

void LayoutChanges::setLayout(MemoryOp memory, StringRef layout) {
  memory.setType(withLayout(memory.getType(), layout));
  for (Value read : memories[memory.getSymName()].reads)
    read.setType(memory.getTensorType());
}

/// A copy of a weight in another layout. Each unit of the forward pass has its own, because units
/// may come to lie on different stages.
Value LayoutChanges::derived(MemoryOp memory, StringRef layout, UnitOp reader) {
  MemoryOp &copy =
      derivedMemories[{memory.getSymName().str(), layout.str(), reader.getOrigin().str()}];
  if (!copy)
    copy = makeDerived(memory, layout, reader.getOrigin());
  Value &read = derivedReads[{reader->getParentOp(), copy}];
  if (!read) {
    OpBuilder builder(reader);
    read = readLatest(copy, builder);
  }
  return read;
}

Value LayoutChanges::readLatest(MemoryOp memory, OpBuilder &builder) {
  Value read = builder.create<WeightVersionOp>(memory.getLoc(), memory.getType(),
                                               memory.getSymName(), Version::Latest);
  memories[memory.getSymName()].reads.push_back(read);
  return read;
}

/// The preparation goes to the start of @train, or behind that of a memory that is derived itself.
MemoryOp LayoutChanges::makeDerived(MemoryOp memory, StringRef layout, StringRef origin) {
  if (!train)
    throw Error("memory '" + memory.getSymName().str() +
                "' is read in two layouts, but there is no "
                "function @train to prepare a copy in");
  Rate rate = memory.getRate() == Rate::Once ? Rate::Once : Rate::Version;
  OpBuilder outside(memory->getContext());
  outside.setInsertionPointAfter(memory);
  auto copy =
      createMemory(symbols, outside, memory.getLoc(), unusedName(memory.getSymName() + "/packed"),
                   Role::Derived, rate, withLayout(memory.getType(), layout));
  memories[copy.getSymName()].memory = copy;
  fixed.insert(copy);

  OpBuilder builder = OpBuilder::atBlockBegin(&train.getBody().front());
  if (WriteOp write = memories[memory.getSymName()].written)
    builder.setInsertionPointAfter(write);
  Value source = readLatest(memory, builder);
  UnitOp unit = reorder(source, layout, {origin, ir::Phase::Prepare, rate}, builder);
  memories[copy.getSymName()].written =
      builder.create<WriteOp>(memory.getLoc(), unit.getResult(0), copy.getSymName());
  return copy;
}

/// One reorder per value and layout, shared by units with the same origin that run no earlier.
Value LayoutChanges::shared(Value value, StringRef layout, const UnitPlace &place,
                            OpBuilder &builder) {
  for (UnitOp unit : reorders[value])
    if (layoutOf(unit.getResult(0).getType()) == layout && unit.getOrigin() == place.origin &&
        unit.getPhase() <= place.phase && unit.getRate() == place.rate)
      return unit.getResult(0);
  UnitOp unit = reorder(value, layout, place, builder);
  reorders[value].push_back(unit);
  return unit.getResult(0);
}

static std::string sourceName(Value value) {
  Operation *definition = value.getDefiningOp();
  if (auto unit = dyn_cast<UnitOp>(definition)) {
    Value yielded = cast<YieldOp>(unit.getBody().front().getTerminator())
                        .getValues()[cast<OpResult>(value).getResultNumber()];
    if (auto node = yielded.getDefiningOp<NodeOp>())
      return node.getName().str();
    return unit.getName().str();
  }
  return cast<FlatSymbolRefAttr>(definition->getAttr("memory")).getValue().str();
}

UnitOp LayoutChanges::reorder(Value value, StringRef layout, const UnitPlace &place,
                              OpBuilder &builder) {
  Operation *function = builder.getInsertionBlock()->getParentOp();
  std::string name = names.at(function).unique(sourceName(value) + "/reorder");
  UnitOp unit =
      createUnit(builder, value.getLoc(), name, place, withLayout(value.getType(), layout), value);
  Block &body = unit.getBody().front();
  Value argument = body.addArgument(value.getType(), value.getLoc());
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  NodeOp node =
      createNode(inside, value.getLoc(), "Reorder", name, argument, {{"layout", layout.str()}});
  node.setPhase(place.phase);
  node.setRate(place.rate);
  inside.create<YieldOp>(value.getLoc(), node.getResults());
  KernelChoice choice = chooseKernel(UnitFacts(unit).view(), options);
  applyChoice(unit, choice);
  if (layoutOf(unit.getResult(0).getType()) != layout)
    throw Error("no kernel reorders '" + name + "' to layout '" + layout.str() + "'");
  return unit;
}

void applyChoice(UnitOp unit, const KernelChoice &choice) {
  for (auto [result, layout] : llvm::zip_equal(unit.getResults(), choice.outputLayouts))
    result.setType(withLayout(result.getType(), layout));
  if (choice.kernel.empty())
    return;
  unit.setKernelAttr(KernelAttr::get(
      unit.getContext(), choice.kernel, toMlir(unit.getContext(), choice.fields),
      choice.workspaceBytes, choice.accumulates, choice.multipliesPlain, choice.addsToLast));
  SmallVector<int64_t> pairs;
  for (auto [argument, result] : choice.inPlace)
    pairs.append({argument, result});
  if (!pairs.empty())
    unit.setInPlace(pairs);
}

} // namespace pdc
