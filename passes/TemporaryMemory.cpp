#include "passes/TemporaryMemory.h"

#include "passes/Values.h"

#include <algorithm>
#include <vector>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Of the tasks of one function, in its order.
class LiveBytes {
public:
  LiveBytes(func::FuncOp function, IsStashed isStashed) : isStashed(isStashed) {
    for (Operation &op : function.getOps())
      places[&op] = places.size();
    changes.resize(places.size() + 1);
    for (UnitOp unit : function.getOps<UnitOp>())
      if (isOfMicrobatch(unit))
        for (Value result : unit.getResults())
          add(result, places.lookup(unit));
  }

  void addTo(func::FuncOp function, PlanIndex indexOf, PlanGraph &graph) const {
    int64_t live = 0;
    int index = -1;
    for (const auto &[place, op] : llvm::enumerate(function.getOps())) {
      live += changes[place];
      auto unit = dyn_cast<UnitOp>(op);
      if (!unit || !isOfMicrobatch(unit))
        continue;
      // What only @evaluate has follows what it reads.
      if (int own = indexOf(unit); own >= 0)
        index = own;
      if (index >= 0)
        graph.units[index].temporaryBytes = std::max(graph.units[index].temporaryBytes, live);
    }
  }

private:
  static bool isOfMicrobatch(UnitOp unit) {
    return unit.getPhase() == ir::Phase::Evaluate || unit.getRate() == Rate::Microbatch;
  }

  /// A view lies where what it shows lies, which lives until the view is read.
  void add(Value value, size_t place) {
    auto unit = value.getDefiningOp<UnitOp>();
    if (isView(unit) || isStashed(value) || isAddedByKernel(value, unit))
      return;
    const int64_t bytes = bytesOf(value.getType());
    changes[place] += bytes;
    changes[std::max(place, lastUse(value)) + 1] -= bytes;
  }

  static bool isAddedByKernel(Value value, UnitOp unit) {
    return value.hasOneUse() && isa<AccumulateOp>(*value.user_begin()) && unit.getKernel() &&
           unit.getKernel()->getAccumulates();
  }

  size_t lastUse(Value value) const {
    size_t last = 0;
    for (Operation *user : value.getUsers()) {
      last = std::max(last, places.lookup(user));
      if (isView(user))
        last = std::max(last, lastUse(user->getResult(0)));
    }
    return last;
  }

  IsStashed isStashed;
  llvm::DenseMap<Operation *, size_t> places;
  std::vector<int64_t> changes; ///< of the live bytes, by place
};

} // namespace

void addTemporaries(ModuleOp module, PlanIndex indexOf, IsStashed isStashed, PlanGraph &graph) {
  for (auto function : module.getOps<func::FuncOp>())
    LiveBytes(function, isStashed).addTo(function, indexOf, graph);
}

} // namespace pdc
