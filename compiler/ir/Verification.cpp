#include "compiler/ir/Conversion.h"
#include "compiler/operators/TensorSize.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallSet.h"

#include <cctype>

using namespace mlir;
using namespace pdc::ir;

/// Far above what any run has; sums and products of a few of them still fit.
static constexpr int64_t kMostStages = 65536, kMostMicrobatches = 1 << 20;
static constexpr int64_t kMostBytes = int64_t(1) << 46;

// Values and types.

/// Whether the tag's outer letters name each dimension once and its blocks fit the rank.
static bool fitsRank(StringRef tag, int64_t rank) {
  auto [element, order] = tag.contains(':') ? tag.split(':') : std::pair(StringRef(), tag);
  if (!element.empty() && element != "u8" && element != "i32")
    return false;
  StringRef outer = order.take_while([](char c) { return std::isalpha(c) != 0; });
  llvm::SmallSet<char, 8> seen;
  for (char c : outer)
    if (int d = std::tolower(c) - 'a'; d >= rank || !seen.insert(static_cast<char>(d)).second)
      return false;
  for (StringRef blocks = order.drop_front(outer.size()); !blocks.empty();
       blocks = blocks.drop_front()) {
    int64_t size = 0;
    if (blocks.consumeInteger(10, size) || size < 1 || size > 1024 || blocks.empty() ||
        blocks.front() < 'a' || blocks.front() - 'a' >= rank)
      return false;
  }
  return order.empty() || static_cast<int64_t>(seen.size()) == rank;
}

static LogicalResult verifyTensor(Operation *op, Type type) {
  auto tensor = dyn_cast<mlir::TensorType>(type);
  if (!tensor)
    return success();
  if (!pdc::findElementType(tensor.getElementType()))
    return op->emitOpError() << "has type " << type << ", expected elements of type f32, f64, f16, "
                             << "bf16, i64, i32, i8, ui8 or i1";
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return success();
  int64_t elements = 1;
  for (int64_t size : ranked.getShape())
    if (!ShapedType::isDynamic(size) &&
        (size > pdc::kMostElementsOfTensor || (elements *= size) > pdc::kMostElementsOfTensor))
      return op->emitOpError() << "has type " << type << ", expected at most "
                               << pdc::kMostElementsOfTensor << " elements";
  if (!ranked.getEncoding())
    return success();
  auto layout = dyn_cast<LayoutAttr>(ranked.getEncoding());
  if (!layout || !fitsRank(layout.getTag(), ranked.getRank()))
    return op->emitOpError() << "has type " << type << ", expected a #pdc.layout of "
                             << ranked.getRank() << " dimensions, such as \"ab\" or \"aBc16b\"";
  return success();
}

LogicalResult pdc::ir::verifyKnownValues(Operation *op) {
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    if (isa<BlockArgument>(operand)) {
      if (operand.getParentBlock() != op->getBlock() || !isa<UnitOp>(op->getParentOp()))
        return op->emitOpError() << "reads an argument of '" << op->getParentOp()->getName()
                                 << "' as operand " << number
                                 << ", expected a result; what comes from outside is a pdc.memory";
      continue;
    }
    Operation *definer = operand.getDefiningOp();
    if (!isa<NodeOp, UnitOp, ReadOp, WeightVersionOp, AbsentOp, CutOp>(definer) ||
        definer->getBlock() != op->getBlock())
      return op->emitOpError() << "reads a result of '" << definer->getName() << "' as operand "
                               << number << ", expected one of a pdc operation in the same block";
  }
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (failed(verifyTensor(op, type)))
        return failure();
  return success();
}

static Type withoutLayout(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return ranked ? RankedTensorType::get(ranked.getShape(), ranked.getElementType()) : type;
}

// Memories and their users.

static LogicalResult verifyRange(Operation *op, StringRef what, int64_t value, int64_t least,
                                 int64_t most) {
  if (value >= least && value <= most)
    return success();
  return op->emitOpError() << "has " << what << ' ' << value << ", expected " << least << " to "
                           << most;
}

static LogicalResult verifyStage(Operation *op, int64_t stage) {
  return verifyRange(op, "stage", stage, 0, kMostStages - 1);
}

static LogicalResult verifyTransfers(MemoryOp memory) {
  if (!memory.getTransfers())
    return success();
  for (mlir::Attribute entry : memory.getTransfersAttr()) {
    auto transfer = dyn_cast<TransferAttr>(entry);
    if (!transfer)
      return memory.emitOpError() << "has " << entry << " in 'transfers', expected a #pdc.transfer";
    if (failed(verifyStage(memory, transfer.getFrom())) ||
        failed(verifyStage(memory, transfer.getTo())))
      return failure();
  }
  return success();
}

/// Before plan-memory the offset is -1.
static LogicalResult verifyHome(Operation *op, HomeAttr home) {
  if (failed(verifyRange(op, "a home at offset", home.getOffset(), -1, kMostBytes)))
    return failure();
  return verifyRange(op, "a home of bytes", home.getBytes(), 0, kMostBytes);
}

LogicalResult MemoryOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError() << "has type " << getType() << ", expected a static shape";
  if (mlir::Attribute initial = getInitialAttr()) {
    auto text = dyn_cast<StringAttr>(initial);
    auto elements = dyn_cast<DenseElementsAttr>(initial);
    if (!isa<FloatAttr>(initial) && !(text && text.getValue() == "file") &&
        !(elements && elements.getType() == withoutLayout(type)))
      return emitOpError() << "has initial value " << initial
                           << ", expected a floating-point number, \"file\" or elements of "
                           << withoutLayout(type);
  }
  if (failed(verifyTensor(*this, type)) || failed(verifyTransfers(*this)))
    return failure();
  if (getHome() && failed(verifyHome(*this, *getHome())))
    return failure();
  return verifyRange(*this, "depth", getDepth().value_or(1), 1, kMostStages);
}

/// The memory that a symbol names: in the enclosing program if there is one, else in the module.
static LogicalResult verifyMemoryUser(Operation *op, FlatSymbolRefAttr name, Type type,
                                      SymbolTableCollection &tables) {
  if (!isa<TaskOp, FunctionOpInterface>(op->getParentOp()))
    return op->emitOpError() << "stands in '" << op->getParentOp()->getName()
                             << "', expected a function or a task";
  auto memory = tables.lookupNearestSymbolFrom<MemoryOp>(op, name);
  if (!memory)
    return op->emitOpError() << "names " << name << ", which is no memory in reach";
  if (isa<RankedTensorType>(type) && withoutLayout(type) != withoutLayout(memory.getType()))
    return op->emitOpError() << "has type " << type << ", but memory " << name << " has type "
                             << memory.getType();
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyMemoryUser(*this, getMemoryAttr(), getValue().getType(), tables);
}
LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyMemoryUser(*this, getMemoryAttr(), getValue().getType(), tables);
}
LogicalResult WeightVersionOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyMemoryUser(*this, getMemoryAttr(), getValue().getType(), tables);
}
LogicalResult CommitOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyMemoryUser(*this, getMemoryAttr(), getValue().getType(), tables);
}
LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyMemoryUser(*this, getMemoryAttr(), getValue().getType(), tables);
}

// Units and cuts.

static LogicalResult verifyBody(UnitOp unit) {
  Block &block = unit.getBody().front();
  if (block.getNumArguments() != unit.getNumOperands())
    return unit.emitOpError() << "has " << unit.getNumOperands() << " operands but "
                              << block.getNumArguments() << " block arguments";
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getValues().size() != unit.getNumResults())
    return unit.emitOpError() << "yields another number of values than its " << unit.getNumResults()
                              << " results";
  for (auto [number, argument] : llvm::enumerate(block.getArguments()))
    if (withoutLayout(argument.getType()) != withoutLayout(unit.getOperand(number).getType()))
      return unit.emitOpError() << "has operand " << number << " of type "
                                << unit.getOperand(number).getType() << ", but its body takes "
                                << argument.getType();
  for (auto [number, value] : llvm::enumerate(yield.getValues()))
    if (withoutLayout(value.getType()) != withoutLayout(unit.getResult(number).getType()))
      return unit.emitOpError() << "has result " << number << " of type "
                                << unit.getResult(number).getType() << ", but its body yields "
                                << value.getType();
  for (Operation &op : block.without_terminator())
    if (!isa<NodeOp, AbsentOp>(op))
      return op.emitOpError() << "stands in a unit, which holds nodes only";
  return success();
}

/// A list with one entry of a kind per result.
template <class Kind>
static LogicalResult verifyPerResult(UnitOp unit, StringRef name, ArrayAttr list, StringRef kind) {
  if (!list || (list.size() == unit.getNumResults() &&
                llvm::all_of(list, [](mlir::Attribute entry) { return isa<Kind>(entry); })))
    return success();
  return unit.emitOpError() << "has " << list << " as '" << name << "', expected one " << kind
                            << " for each of " << unit.getNumResults() << " results";
}

static LogicalResult verifyInPlace(UnitOp unit) {
  ArrayRef<int64_t> pairs = unit.getInPlace().value_or(ArrayRef<int64_t>());
  bool fits = pairs.size() % 2 == 0;
  for (size_t i = 0; fits && i < pairs.size(); i += 2)
    fits = pairs[i] >= 0 && pairs[i] < unit.getNumOperands() && pairs[i + 1] >= 0 &&
           pairs[i + 1] < unit.getNumResults() &&
           !isa<NoneType>(unit.getOperand(pairs[i]).getType());
  if (!fits)
    return unit.emitOpError() << "has 'in_place' [" << pairs
                              << "], expected pairs of an operand and a result";
  return success();
}

LogicalResult UnitOp::verify() {
  if (failed(verifyBody(*this)) || failed(verifyInPlace(*this)) ||
      failed(verifyPerResult<HomeAttr>(*this, "homes", getHomesAttr(), "#pdc.home")) ||
      failed(
          verifyPerResult<StringAttr>(*this, "result_variables", getResultVariablesAttr(), "name")))
    return failure();
  if (getHomes())
    for (auto home : getHomesAttr().getAsRange<HomeAttr>())
      if (failed(verifyHome(*this, home)))
        return failure();
  if (getKernel() &&
      failed(verifyRange(*this, "workspace", getKernel()->getWorkspace(), 0, kMostBytes)))
    return failure();
  return getStage() ? verifyStage(*this, *getStage()) : success();
}

LogicalResult CutOp::verify() {
  if (failed(verifyStage(*this, getFrom())) || failed(verifyStage(*this, getTo())))
    return failure();
  if (getFrom() == getTo())
    return emitOpError() << "from stage " << getFrom() << " to itself";
  if (getValue().getType() != getResult().getType())
    return emitOpError() << "takes a value of type " << getValue().getType() << " but gives "
                         << getResult().getType();
  auto producer = getValue().getDefiningOp<UnitOp>();
  if (!producer)
    return emitOpError() << "takes a value that no unit makes";
  if (producer.getStage() && *producer.getStage() != getFrom())
    return emitOpError() << "from stage " << getFrom() << ", but unit '" << producer.getName()
                         << "' that makes the value is on stage " << *producer.getStage();
  return success();
}

// Programs and their rows.

static LogicalResult verifyRegion(ProgramOp program, mlir::Attribute attribute) {
  auto region = dyn_cast<DictionaryAttr>(attribute);
  auto number = [&](StringRef key) -> int64_t {
    auto value = region.getAs<IntegerAttr>(key);
    return value && value.getType().isSignlessInteger(64) ? value.getInt() : -1;
  };
  auto isPlace = [&](StringRef key, int64_t least) {
    return number(key) >= least && number(key) <= kMostBytes;
  };
  if (region && region.getAs<StringAttr>("name") && isPlace("offset", 0) && isPlace("stride", 0) &&
      isPlace("copies", 1) && number("copies") <= kMostStages)
    return success();
  return program.emitOpError() << "has " << attribute
                               << " in 'regions', expected {name, offset, stride, copies}";
}

/// Operations that the rows, memories and tasks of a program are read through.
template <class... Kinds> static LogicalResult verifyHolds(Operation *op, StringRef kinds) {
  for (Operation &inner : op->getRegion(0).front())
    if (!isa<Kinds...>(inner))
      return inner.emitOpError() << "stands in '" << op->getName() << "', which holds " << kinds;
  return success();
}

LogicalResult ProgramOp::verify() {
  if (failed(verifyHolds<MemoryOp, StageOp, ScheduleOp>(*this, "memories, stages and schedules")))
    return failure();
  llvm::SmallSet<int64_t, 8> seen;
  if (getRanks().empty())
    return emitOpError() << "runs on no rank, expected at least one";
  for (int64_t rank : getRanks()) {
    if (failed(verifyRange(*this, "rank", rank, 0, kMostStages - 1)))
      return failure();
    if (!seen.insert(rank).second)
      return emitOpError() << "names rank " << rank << " twice";
  }
  for (auto schedule : getOps<ScheduleOp>()) {
    bool known = schedule.getRank() ? seen.contains(*schedule.getRank()) : seen.size() == 1;
    if (!known)
      return schedule.emitOpError()
             << "is of no rank of the program, which runs on [" << getRanks() << "]";
  }
  if (getRegions())
    for (mlir::Attribute region : getRegionsAttr())
      if (failed(verifyRegion(*this, region)))
        return failure();
  if (failed(verifyRange(*this, "arena", getArena().value_or(0), 0, kMostBytes)))
    return failure();
  return verifyRange(*this, "workspace", getWorkspace().value_or(0), 0, kMostBytes);
}

LogicalResult TaskOp::verify() {
  return verifyHolds<NodeOp, UnitOp, ReadOp, WeightVersionOp, WriteOp, CommitOp, AccumulateOp,
                     AbsentOp, YieldOp>(*this, "units and what they read and write");
}

LogicalResult StageOp::verify() {
  if (failed(verifyStage(*this, getId())) || failed(verifyHolds<TaskOp>(*this, "tasks")))
    return failure();
  for (int64_t slot : getSlots().value_or(ArrayRef<int64_t>()))
    if (failed(verifyRange(*this, "slot", slot, 0, kMostStages - 1)))
      return failure();
  return verifyRange(*this, "versions", getVersions().value_or(1), 1, kMostStages);
}

LogicalResult ScheduleOp::verify() {
  if (failed(verifyRange(*this, "microbatches", getMicrobatches(), 1, kMostMicrobatches)))
    return failure();
  bool isRule = getWeights() == Version::AtEntry || getWeights() == Version::Previous;
  if (getWeights() && (!isRule || !getAsynchronous()))
    return emitOpError() << "gives its tasks weights '" << stringifyVersion(*getWeights())
                         << "', expected 'at_entry' or 'previous' in an asynchronous schedule, or "
                            "none";
  return verifyRange(*this, "period", getPeriod(), getAsynchronous() ? 1 : 0, kMostMicrobatches);
}

static LogicalResult verifyRow(Operation *op, int64_t stage, int64_t microbatch) {
  if (failed(verifyStage(op, stage)))
    return failure();
  return verifyRange(op, "microbatch", microbatch, 0, kMostMicrobatches);
}

LogicalResult RunOp::verify() { return verifyRow(*this, getStage(), getMicrobatch()); }

template <class Transfer> static LogicalResult verifyTransfer(Transfer op) {
  if (failed(verifyRow(op, op.getStage(), op.getMicrobatch())))
    return failure();
  return verifyRange(op, "peer", op.getPeer(), 0, kMostStages - 1);
}

LogicalResult SendOp::verify() { return verifyTransfer(*this); }
LogicalResult RecvOp::verify() { return verifyTransfer(*this); }

static LogicalResult verifyBox(Operation *op, FlatSymbolRefAttr name, Role role,
                               SymbolTableCollection &tables) {
  auto memory = tables.lookupNearestSymbolFrom<MemoryOp>(op, name);
  if (!memory || memory.getRole() != role)
    return op->emitOpError() << "names " << name << ", which is no " << stringifyRole(role)
                             << " of the program";
  return success();
}

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyBox(*this, getMemoryAttr(), Role::Outbox, tables);
}
LogicalResult RecvOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyBox(*this, getMemoryAttr(), Role::Inbox, tables);
}

LogicalResult AllReduceOp::verify() {
  for (mlir::Attribute name : getMemories())
    if (!isa<FlatSymbolRefAttr>(name))
      return emitOpError() << "names " << name << ", expected memories such as @pdc.loss";
  if (getStage().has_value() != getMicrobatch().has_value())
    return emitOpError() << "names only one of 'stage' and 'microbatch', expected both or none";
  return verifyRow(*this, getStage().value_or(0), getMicrobatch().value_or(0));
}
