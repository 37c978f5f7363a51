#include "passes/ProgramMemory.h"

#include "compiler/Error.h"

#include "llvm/ADT/StringSet.h"

#include <utility>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

// Measured by tools/bench/memory with Debian's oneDNN 2.6 and Open MPI 4.1: in any program, for
// each kernel, and code that the first kernel of a kind brings into memory.
static constexpr int64_t baseBytes = int64_t(3200) << 10;
static constexpr int64_t bytesPerKernel = int64_t(8) << 10;
static constexpr std::pair<llvm::StringLiteral, int64_t> bytesOfKinds[] = {
    {"Convolution", int64_t(512) << 10},
    {"ConvolutionWeightGradient", int64_t(512) << 10},
    {"ConvolutionInputGradient", int64_t(1) << 20},
    {"MatrixProduct", int64_t(2) << 20}};

/// Units that run twice or in several tasks share a kernel under one name.
int64_t libraryBytesOf(ProgramOp program) {
  llvm::StringSet<> kernels, kinds;
  program.walk([&](UnitOp unit) {
    if (!unit.getKernel() || !unit.getVariable())
      return;
    kernels.insert(*unit.getVariable());
    kinds.insert(unit.getKernel()->getName());
  });
  int64_t bytes = baseBytes + static_cast<int64_t>(kernels.size()) * bytesPerKernel;
  for (auto [kind, code] : bytesOfKinds)
    bytes += kinds.contains(kind) ? code : 0;
  return bytes;
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
    int64_t rest = static_cast<int64_t>(*program.getArena()) + libraryBytesOf(program);
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
