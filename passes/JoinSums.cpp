#include "passes/Nodes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {
#define GEN_PASS_DEF_JOINSUMS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct JoinSums : impl::JoinSumsBase<JoinSums> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::DenseMap<StringAttr, SmallVector<AccumulateOp, 1>> additions;
    getOperation().walk([&](AccumulateOp addition) {
      additions[addition.getMemoryAttr().getAttr()].push_back(addition);
    });
    for (auto weight : getOperation().getOps<MemoryOp>()) {
      if (weight.getRole() != Role::Weight)
        continue;
      const std::string joined = gradientName(weight.getSymName(), 0);
      for (size_t use = 1;; ++use) {
        auto sum = symbols.lookup<MemoryOp>(gradientName(weight.getSymName(), use));
        if (!sum)
          break;
        for (AccumulateOp addition : additions.lookup(sum.getSymNameAttr()))
          addition.setMemory(joined);
        symbols.erase(sum);
      }
    }
  }
};

} // namespace
} // namespace pdc
