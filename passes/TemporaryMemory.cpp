#include "passes/TemporaryMemory.h"

#include "passes/Buffers.h"
#include "passes/Values.h"

#include "llvm/ADT/IntEqClasses.h"

#include <algorithm>
#include <vector>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Kernels add to sums of gradients where they can.
bool isAddedByKernel(Value value, UnitOp unit) {
  return value.hasOneUse() && isa<AccumulateOp>(*value.user_begin()) && unit.getKernel() &&
         unit.getKernel()->getAccumulates();
}

/// Whether it is made where it is kept, as the next value of a weight is.
bool liesInMemory(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return storedValue(user) && !isa<AccumulateOp>(user);
  });
}

/// What the units of a function make, and which of it shares bytes.
class MadeValues {
public:
  /// `apart`: all input gradients run before all weight gradients.
  MadeValues(func::FuncOp function, bool apart) : function(function), apart(apart) {
    for (Operation &op : function.getOps())
      places[&op] = places.size();
    for (UnitOp unit : function.getOps<UnitOp>())
      if (!isView(unit))
        for (Value result : unit.getResults()) {
          numbers[result] = static_cast<unsigned>(values.size());
          values.push_back({result, places.lookup(unit), lastUse(result)});
        }
    buffers.grow(static_cast<unsigned>(values.size()));
    for (UnitOp unit : function.getOps<UnitOp>())
      if (unit.getKernel() && !isView(unit))
        shareInPlace(unit);
    buffers.compress();
  }

  LiveBytes live(IsStashed isStashed) const {
    std::vector<Buffer> found(buffers.getNumClasses());
    for (const auto &[number, made] : llvm::enumerate(values)) {
      Buffer &buffer = found[buffers[static_cast<unsigned>(number)]];
      buffer.begin = std::min(buffer.begin, made.begin);
      buffer.end = std::max(buffer.end, made.end);
      buffer.bytes = bytesOf(made.value.getType());
      buffer.isKept |= isStashed(made.value) || isPersistent(made.value);
    }
    std::vector<int64_t> changes(places.size() + 1);
    for (const Buffer &buffer : found)
      if (!buffer.isKept) {
        changes[buffer.begin] += buffer.bytes;
        changes[buffer.end + 1] -= buffer.bytes;
      }
    LiveBytes live;
    int64_t bytes = 0;
    for (const auto &[place, op] : llvm::enumerate(func::FuncOp(function).getOps())) {
      bytes += changes[place];
      if (isa<UnitOp>(op))
        live[&op] = bytes;
    }
    return live;
  }

private:
  struct Made {
    Value value;
    size_t begin, end; ///< from the unit that makes it to the last that reads it
  };
  struct Buffer {
    size_t begin = SIZE_MAX, end = 0;
    int64_t bytes = 0;
    bool isKept = false;
  };

  static bool isPersistent(Value value) {
    return liesInMemory(value) || isAddedByKernel(value, value.getDefiningOp<UnitOp>());
  }

  size_t lastUse(Value value) const {
    size_t last = places.lookup(value.getDefiningOp());
    for (Operation *user : value.getUsers()) {
      last = std::max(last, places.lookup(user));
      if (isView(user))
        last = std::max(last, lastUse(user->getResult(0)));
    }
    return last;
  }

  /// A result may lie where an operand lay that nothing reads behind its unit.
  void shareInPlace(UnitOp unit) {
    llvm::SmallDenseSet<Value> taken;
    llvm::SmallDenseSet<unsigned> done;
    for (const InPlace &offer : offeredInPlace(unit)) {
      const Value over = behindViews(unit.getOperand(offer.operand));
      const Value result = unit.getResult(offer.result);
      if (done.contains(offer.result) || taken.contains(over) || !mayLieOver(unit, over, result))
        continue;
      buffers.join(numbers.lookup(over), numbers.lookup(result));
      taken.insert(over);
      done.insert(offer.result);
    }
  }

  bool mayLieOver(UnitOp unit, Value over, Value result) const {
    auto found = numbers.find(over);
    const bool isReadLater =
        apart && unit.getPhase() == ir::Phase::BackwardInput && isReadByWeights(over);
    return found != numbers.end() && !isPersistent(over) && !isPersistent(result) && !isReadLater &&
           values[found->second].end == places.lookup(unit) &&
           bytesOf(over.getType()) == bytesOf(result.getType());
  }

  static bool isReadByWeights(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      auto unit = dyn_cast<UnitOp>(user);
      return unit && (isView(unit) ? isReadByWeights(unit.getResult(0))
                                   : unit.getPhase() == ir::Phase::BackwardWeight);
    });
  }

  func::FuncOp function;
  bool apart;
  llvm::DenseMap<Operation *, size_t> places; ///< in the function
  std::vector<Made> values;
  llvm::DenseMap<Value, unsigned> numbers;
  llvm::IntEqClasses buffers; ///< of values
};

} // namespace

LiveBytes liveBytes(func::FuncOp function, IsStashed isStashed) {
  return MadeValues(function, false).live(isStashed);
}

LiveBytes splitLiveBytes(func::FuncOp function, IsStashed isStashed) {
  const MadeValues values(function, true);
  LiveBytes live;
  for (ir::Phase half : {ir::Phase::BackwardInput, ir::Phase::BackwardWeight}) {
    const ir::Phase other =
        half == ir::Phase::BackwardInput ? ir::Phase::BackwardWeight : ir::Phase::BackwardInput;
    auto isPhase = [](Operation *op, ir::Phase phase) {
      return cast<UnitOp>(op).getPhase() == phase;
    };
    const LiveBytes found = values.live(
        [&](Value value) { return isStashed(value) || isPhase(value.getDefiningOp(), other); });
    for (const auto &[unit, bytes] : found)
      if (!isPhase(unit, other))
        live[unit] = bytes;
  }
  return live;
}

} // namespace pdc
