#include "passes/Buffers.h"
#include "passes/PackIntervals.h"
#include "passes/Partitions.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"
#include "passes/Values.h"

#include "compiler/Error.h"
#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"

#include "llvm/ADT/DenseSet.h"

namespace pdc {
#define GEN_PASS_DEF_ASSIGNHOMES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Decides for one program.
class HomeAssigner {
public:
  explicit HomeAssigner(ProgramOp program) : program(program), symbols(program) {}

  void assign() {
    // 1. Sums first: a fused sum's home is the memory, and nothing else may share it.
    program.walk([&](Operation *op) { checkStore(op); });
    for (auto stage : program.getOps<StageOp>())
      orderSums(stage);
    program.walk([&](AccumulateOp accumulate) { fuse(accumulate); });
    // 2. What the kernels could do in place becomes what they do.
    llvm::DenseMap<Operation *, SmallVector<InPlace>> offers = takeOffers();
    Buffers buffers(program);
    if (!program->getParentOp()->hasAttr(kMeasuresUnitsAttribute))
      program.walk([&](UnitOp unit) { placeParts(unit, buffers); });
    program.walk([&](TaskOp task) {
      for (auto unit : task.getOps<UnitOp>())
        if (unit.getKernel())
          choosePairs(unit, offers[unit], buffers);
    });
    // 3. Regions.
    program.walk([&](UnitOp unit) { setHomes(unit, buffers); });
    for (auto memory : program.getOps<MemoryOp>())
      memory.setHomeAttr(home(buffers.regionOf(memory), memory.getType()));
  }

private:
  MemoryOp memory(FlatSymbolRefAttr name) { return symbols.lookup<MemoryOp>(name.getAttr()); }

  /// One layout, or two that both have the elements in row-major order without padding.
  static bool haveSameBytes(Type a, Type b) {
    if (a == b)
      return true;
    TensorType first = toTensorType(a), second = toTensorType(b);
    std::string_view layout = layoutOf(a), other = layoutOf(b);
    bool plain = layout.find(':') == layout.npos && other.find(':') == other.npos;
    return first == second && plain && isRowMajor(first, layout) && isRowMajor(second, other);
  }

  void checkStore(Operation *op) {
    Value value = storedValue(op);
    if (!value || haveSameBytes(value.getType(), memory(memoryOf(op)).getType()))
      return;
    std::string found, expected;
    llvm::raw_string_ostream(found) << value.getType();
    llvm::raw_string_ostream(expected) << memory(memoryOf(op)).getType();
    throw Error("memory '" + memoryOf(op).getValue().str() + "' holds " + expected +
                " but is given " + found + "; choose-kernels must give both one layout");
  }

  /// What adds to a sum does so where its value is made, so that the first is known.
  void orderSums(StageOp stage) {
    SmallVector<AccumulateOp> additions;
    stage.walk([&](AccumulateOp addition) { additions.push_back(addition); });
    for (AccumulateOp addition : llvm::reverse(additions))
      if (auto unit = addition.getValue().getDefiningOp<UnitOp>())
        addition->moveAfter(unit);
    llvm::DenseSet<StringAttr> begun;
    stage.walk([&](AccumulateOp addition) {
      StringAttr sum = addition.getMemoryAttr().getAttr();
      const bool continues = !begun.insert(sum).second;
      if (!continues && !summed.insert(sum).second)
        throw Error("memory '" + sum.str() +
                    "' is summed by two stages of a rank; divide-sums gives "
                    "each its own");
      addition.setContinues(continues);
    });
  }

  /// Those of a unit's results that its kernel can add to.
  static mlir::ResultRange addableResults(UnitOp unit) {
    const bool lastAlone = unit.getKernel()->getAddsToLast();
    return unit->getResults().take_back(lastAlone ? 1 : unit.getNumResults());
  }

  /// A sum costs nothing where the kernel adds to its results, all of which are summed and each of
  /// which begins or continues its sum, or where there is nothing to add.
  void fuse(AccumulateOp accumulate) {
    auto task = accumulate->getParentOfType<TaskOp>();
    auto unit = accumulate.getValue().getDefiningOp<UnitOp>();
    if (task.getPhase() == ir::Phase::Evaluate || !unit || !unit.getKernel() ||
        !accumulate.getValue().hasOneUse())
      return;
    auto isAlike = [&](Value result) {
      auto other = result.hasOneUse() ? dyn_cast<AccumulateOp>(*result.user_begin()) : nullptr;
      return other && other.getContinues() == accumulate.getContinues();
    };
    const bool adds =
        unit.getKernel()->getAccumulates() && llvm::all_of(addableResults(unit), isAlike);
    if (adds || (updatesEachMicrobatch(program) && !accumulate.getContinues()))
      accumulate.setFused(true);
  }

  llvm::DenseMap<Operation *, SmallVector<InPlace>> takeOffers() {
    llvm::DenseMap<Operation *, SmallVector<InPlace>> offers;
    program.walk([&](UnitOp unit) {
      if (!unit.getKernel())
        return;
      offers[unit] = offeredInPlace(unit);
      unit.removeInPlaceAttr();
    });
    return offers;
  }

  /// Parts that can lie in the whole do: then nothing is left to compute.
  static void placeParts(UnitOp unit, Buffers &buffers) {
    std::optional<Partition> partition = partitionOf(unit);
    if (!unit.getKernel() || !partition || !canLieTogether(unit, *partition, buffers))
      return;
    unit.setParts(partition->offsets);
    unit.removeKernelAttr();
    buffers.joinParts(unit);
  }

  static bool isAlone(Value value, const Buffers &buffers) {
    return buffers.of(value).bytes() == bytesOf(value.getType());
  }

  /// Whether nothing changes what is read of these bytes while a task runs.
  static bool isSteady(const Buffer &buffer) {
    return llvm::all_of(buffer.memories, [](MemoryOp memory) {
      return !isPersistent(memory) || memory.getRole() == Role::Weight ||
             memory.getRole() == Role::Derived || memory.getRole() == Role::Constant;
    });
  }

  /// Each part has a buffer to itself, of its own size, that has not to be elsewhere, and begins
  /// where kernels want it. What is kept for the backward pass grows by an eighth at most.
  static bool canLieTogether(UnitOp unit, const Partition &partition, const Buffers &buffers) {
    const Buffer &whole = buffers.of(partition.whole);
    if (partition.joins ? whole.persistent() || whole.has(Role::Input)
                        : !isSteady(whole) || unit.getPhase() == ir::Phase::Update)
      return false;
    int64_t kept = whole.memories.empty() ? 0 : whole.bytes();
    bool keeps = kept > 0;
    llvm::SmallPtrSet<const Buffer *, 8> seen{&whole};
    for (auto [part, offset] : llvm::zip_equal(partition.parts, partition.offsets)) {
      const Buffer &buffer = buffers.of(part);
      if (!seen.insert(&buffer).second || !isAlone(part, buffers) || buffer.persistent() ||
          buffer.has(Role::Input) || offset != aligned(offset))
        return false;
      if (whole.persistent() && !buffer.memories.empty())
        return false;
      keeps = keeps || !buffer.memories.empty();
      kept += buffer.memories.empty() ? 0 : buffer.bytes();
    }
    return !keeps || whole.bytes() <= kept + kept / 8;
  }

  void choosePairs(UnitOp unit, ArrayRef<InPlace> offers, Buffers &buffers) {
    SmallVector<int64_t> chosen;
    llvm::SmallDenseSet<unsigned> done;
    for (const InPlace &offer : offers) {
      Value operand = unit.getOperand(offer.operand), result = unit.getResult(offer.result);
      if (done.contains(offer.result) || !mayShare(unit, operand, result, buffers))
        continue;
      buffers.join(operand, result);
      chosen.append({offer.operand, offer.result});
      done.insert(offer.result);
    }
    for (auto [number, result] : llvm::enumerate(unit.getResults()))
      checkForced(unit, result, done.contains(number), buffers);
    if (!chosen.empty())
      unit.setInPlace(chosen);
  }

  /// An update in place of a memory that the unit also reads, or a state's next value.
  static bool isForced(Value operand, Value result, const Buffers &buffers) {
    MemoryOp memory = buffers.of(result).persistent();
    return memory && buffers.same(operand, result) && memory.getDepth().value_or(1) == 1;
  }

  /// A forced overwrite needs a kernel that can do it and nobody who reads the old value later.
  void checkForced(UnitOp unit, Value result, bool chosen, const Buffers &buffers) {
    for (Value operand : unit.getOperands()) {
      if (isa<NoneType>(operand.getType()) || !isForced(operand, result, buffers))
        continue;
      std::string what = "unit '" + unit.getName().str() + "' overwrites memory '" +
                         buffers.of(result).persistent().getSymName().str() + "' which it reads";
      if (!chosen)
        throw Error(what + ", but its kernel cannot work in place");
      if (readAgain(unit, operand, buffers))
        throw Error(what + " and which is read after it");
    }
  }

  /// Whether the old value is read behind the unit. A read that stands behind it gives the next
  /// one: several units may bring a state forward, one after the other.
  static bool readAgain(UnitOp unit, Value operand, const Buffers &buffers) {
    return llvm::any_of(buffers.of(operand).values, [&](Value value) {
      Operation *definer = value.getDefiningOp();
      const bool isOld = definer->getBlock() == unit->getBlock() && definer->isBeforeInBlock(unit);
      return isOld && isReadBehind(unit, value, buffers);
    });
  }

  bool mayShare(UnitOp unit, Value operand, Value result, const Buffers &buffers) {
    if (isa<NoneType>(operand.getType()) || bytesOf(operand.getType()) != bytesOf(result.getType()))
      return false;
    if (buffers.areTogether(operand, result))
      return buffers.same(operand, result) && isForced(operand, result, buffers);
    // A part of one whole is never one of another.
    const bool isOfTwo = !isAlone(operand, buffers) && !isAlone(result, buffers);
    if (buffers.of(result).persistent() || isOfTwo || !dies(unit, operand, buffers))
      return false;
    for (Value other : unit.getResults())
      if (buffers.overlap(operand, other))
        return false;
    // The same bytes under another operand may be read in another order.
    bool elementwise = unit.getKernel()->getName() == "Elementwise";
    int64_t readers = 0;
    for (Value other : unit.getOperands())
      if (!isa<NoneType>(other.getType()) && buffers.overlap(operand, other)) {
        ++readers;
        elementwise = elementwise && buffers.same(operand, other);
      }
    return elementwise || readers == 1;
  }

  /// Whether the buffer's content is of no use after the unit, in this task or another.
  bool dies(UnitOp unit, Value operand, const Buffers &buffers) {
    const Buffer &buffer = buffers.of(operand);
    if (buffer.persistent() || buffer.has(Role::Input) || buffer.has(Role::Outbox))
      return false;
    auto task = unit->getParentOfType<TaskOp>();
    for (Value value : buffer.values) {
      auto other = value.getDefiningOp()->getParentOfType<TaskOp>();
      if (other != task && task->isBeforeInBlock(other) && buffers.overlap(value, operand))
        return false;
    }
    return !readLater(unit, operand, buffers);
  }

  static bool readLater(UnitOp unit, Value operand, const Buffers &buffers) {
    return llvm::any_of(buffers.of(operand).values, [&](Value value) {
      return value.getDefiningOp() != unit && buffers.overlap(value, operand) &&
             isReadBehind(unit, value, buffers);
    });
  }

  static bool isReadBehind(UnitOp unit, Value value, const Buffers &buffers) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return user->getBlock() == unit->getBlock() && unit->isBeforeInBlock(user) &&
             !storesInto(user, value, buffers);
    });
  }

  /// Writing a value into the memory whose bytes it has is no read.
  static bool storesInto(Operation *user, Value operand, const Buffers &buffers) {
    return isa<WriteOp, CommitOp>(user) && buffers.same(user->getOperand(0), operand);
  }

  HomeAttr home(StringRef region, Type type) {
    return HomeAttr::get(program.getContext(), region, -1, bytesOf(type));
  }

  void setHomes(UnitOp unit, const Buffers &buffers) {
    SmallVector<mlir::Attribute> homes;
    for (Value result : unit.getResults())
      homes.push_back(home(buffers.regionOf(result), result.getType()));
    unit.setHomesAttr(ArrayAttr::get(program.getContext(), homes));
  }

  ProgramOp program;
  SymbolTable symbols;
  llvm::DenseSet<StringAttr> summed;
};

struct AssignHomes : impl::AssignHomesBase<AssignHomes> {
  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  LogicalResult run() {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (!refuseAt(program, [&] { HomeAssigner(program).assign(); }))
        return failure();
    return success();
  }
};

} // namespace
} // namespace pdc
