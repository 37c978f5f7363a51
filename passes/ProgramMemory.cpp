#include "passes/ProgramMemory.h"

#include "compiler/Error.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// Units that run twice or in several tasks share a kernel under one name.
static int64_t countKernels(ProgramOp program) {
  llvm::StringSet<> kernels;
  program.walk([&](UnitOp unit) {
    if (unit.getKernel() && unit.getVariable())
      kernels.insert(*unit.getVariable());
  });
  return static_cast<int64_t>(kernels.size());
}

static int64_t bytesOfSlots(ProgramOp program, StageOp stage) {
  std::string name = "slots." + std::to_string(stage.getId());
  for (auto region : program.getRegionsAttr().getAsRange<DictionaryAttr>())
    if (region.getAs<StringAttr>("name") == name)
      return region.getAs<IntegerAttr>("stride").getInt() *
             region.getAs<IntegerAttr>("copies").getInt();
  return 0;
}

void setMemory(Plan &plan, ModuleOp programs) {
  for (auto program : programs.getOps<ProgramOp>()) {
    if (!program.getArena() || !program.getRegions())
      throw Error("program @" + program.getSymName().str() +
                  " has no arena; run plan-memory first");
    auto stages = llvm::to_vector(program.getOps<StageOp>());
    int64_t rest = static_cast<int64_t>(*program.getArena()) + libraryBytes +
                   countKernels(program) * libraryBytesPerKernel;
    for (StageOp stage : stages)
      rest -= bytesOfSlots(program, stage);
    int64_t count = static_cast<int64_t>(stages.size());
    for (auto [number, stage] : llvm::enumerate(stages))
      if (stage.getId() < plan.stages.size())
        plan.stages[stage.getId()].memoryBytes =
            bytesOfSlots(program, stage) + rest / count + (number == 0 ? rest % count : 0);
  }
}

} // namespace pdc
