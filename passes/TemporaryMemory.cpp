#include "passes/TemporaryMemory.h"

#include "passes/Values.h"

#include <algorithm>
#include <vector>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Where each operation of a function stands in it.
using Places = llvm::DenseMap<Operation *, size_t>;

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

size_t lastUse(Value value, const Places &places) {
  size_t last = 0;
  for (Operation *user : value.getUsers()) {
    last = std::max(last, places.lookup(user));
    if (isView(user))
      last = std::max(last, lastUse(user->getResult(0), places));
  }
  return last;
}

} // namespace

llvm::DenseMap<Operation *, int64_t> liveBytes(func::FuncOp function, IsStashed isStashed) {
  Places places;
  for (Operation &op : function.getOps())
    places[&op] = places.size();
  std::vector<int64_t> changes(places.size() + 1);
  for (UnitOp unit : function.getOps<UnitOp>())
    for (Value result : unit.getResults()) {
      if (isView(unit) || isStashed(result) || liesInMemory(result) ||
          isAddedByKernel(result, unit))
        continue;
      const int64_t bytes = bytesOf(result.getType());
      const size_t place = places.lookup(unit);
      changes[place] += bytes;
      changes[std::max(place, lastUse(result, places)) + 1] -= bytes;
    }
  llvm::DenseMap<Operation *, int64_t> live;
  int64_t bytes = 0;
  for (const auto &[place, op] : llvm::enumerate(function.getOps())) {
    bytes += changes[place];
    if (isa<UnitOp>(op))
      live[&op] = bytes;
  }
  return live;
}

} // namespace pdc
