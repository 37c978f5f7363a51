#include "passes/ProgramMemory.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"

#include <algorithm>
#include <utility>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

// Bounds of what tools/bench/memory measured beside arenas, and /proc/PID/smaps in parts, with
// Debian's oneDNN 2.6 and Open MPI 4.1 on a processor with AVX-512. Of a process: pages that any
// program touches once it trains.
static constexpr int64_t processBytes = int64_t(100) << 10;
// Of a rank: its stack, queues of messages, pages of data files; and each kernel's objects.
static constexpr int64_t rankBytes = int64_t(380) << 10;
static constexpr int64_t bytesPerKernel = int64_t(3) << 10;
// Of a rank with replicas: the thread of its sums, and what MPI keeps for their messages.
static constexpr int64_t sumsThreadBytes = int64_t(256) << 10;
// Of oneDNN: its engine and the code behind any primitive; what it keeps of a primitive, generated
// code included, equal ones once.
static constexpr int64_t libraryBytes = int64_t(1450) << 10;
static constexpr int64_t bytesPerPrimitive = int64_t(55) << 10;
// Code that the first kernel of a kind brings into memory, in kinds that call oneDNN.
static constexpr std::pair<llvm::StringLiteral, int64_t> bytesOfKinds[] = {
    {"MatrixProduct", int64_t(850) << 10},
    {"MatrixProduct, relu", int64_t(410) << 10},
    {"Convolution", int64_t(880) << 10},
    {"ConvolutionWeightGradient", int64_t(600) << 10},
    {"ConvolutionInputGradient", int64_t(150) << 10},
    {"Pooling", int64_t(300) << 10},
    {"PoolingGradient", int64_t(300) << 10},
    {"Reorder", int64_t(700) << 10}};

static bool callsLibrary(StringRef kernel) {
  return llvm::any_of(bytesOfKinds, [&](const auto &kind) { return kind.first == kernel; });
}

/// The kernel without the name of its unit.
static mlir::Attribute described(KernelAttr kernel) {
  NamedAttrList fields(kernel.getFields());
  fields.erase("name");
  return KernelAttr::get(kernel.getContext(), kernel.getName(),
                         fields.getDictionary(kernel.getContext()), kernel.getWorkspace(),
                         kernel.getAccumulates());
}

/// Units that run twice or in several tasks share a kernel under one name; before names are given
/// each has its own.
void LibraryUse::add(UnitOp unit) {
  if (!unit.getKernel())
    return;
  kernels.insert(unit.getVariable() ? unit.getVariable()->str()
                                    : "#" + std::to_string(kernels.size()));
  const KernelAttr kernel = *unit.getKernel();
  if (!callsLibrary(kernel.getName()))
    return;
  kinds.insert(kernel.getName().str());
  auto relu = kernel.getFields().getAs<IntegerAttr>("relu");
  if (relu && relu.getInt())
    kinds.insert((kernel.getName() + ", relu").str());
  // One makes the product, another adds it to a sum.
  const bool adds = kernel.getName() == "MatrixProduct" && kernel.getAccumulates();
  calls[described(kernel)] = adds ? 2 : 1;
}

void LibraryUse::add(const LibraryUse &other) {
  kinds.insert(other.kinds.begin(), other.kinds.end());
  calls.insert(other.calls.begin(), other.calls.end());
  for (const auto &kernel : other.kernels)
    kernels.insert(kernel.getKey());
}

int64_t LibraryUse::bytesOfProcess() const {
  int64_t bytes = processBytes + (kinds.empty() ? 0 : libraryBytes);
  for (auto [kind, code] : bytesOfKinds)
    bytes += kinds.contains(kind.str()) ? code : 0;
  for (auto [kernel, primitives] : calls)
    bytes += primitives * bytesPerPrimitive;
  return bytes;
}

int64_t LibraryUse::bytesOfRank() const {
  return rankBytes + static_cast<int64_t>(kernels.size()) * bytesPerKernel;
}

static LibraryUse useOf(ProgramOp program) {
  LibraryUse use;
  program.walk([&](UnitOp unit) { use.add(unit); });
  return use;
}

static int64_t bytesOfSlots(ProgramOp program, StageOp stage) {
  std::string name = "slots." + std::to_string(stage.getId());
  for (auto region : program.getRegionsAttr().getAsRange<DictionaryAttr>())
    if (region.getAs<StringAttr>("name") == name)
      return region.getAs<IntegerAttr>("stride").getInt() *
             region.getAs<IntegerAttr>("copies").getInt();
  return 0;
}

/// A rank has room for the sums of one stage over its replicas at a time.
static int64_t bytesOfSums(const Plan &plan, ArrayRef<StageOp> stages) {
  int64_t most = 0;
  for (StageOp stage : stages)
    if (stage.getId() < plan.stages.size())
      most = std::max(most, reductionBytes(plan.stages[stage.getId()]));
  return most ? most + sumsThreadBytes : 0;
}

void setMemory(Plan &plan, ModuleOp programs) {
  LibraryUse together;
  for (auto program : programs.getOps<ProgramOp>()) {
    if (!program.getArena() || !program.getRegions())
      throw Error("program @" + program.getSymName().str() +
                  " has no arena; run plan-memory first");
    const LibraryUse use = useOf(program);
    together.add(use);
    auto stages = llvm::to_vector(program.getOps<StageOp>());
    int64_t rest = static_cast<int64_t>(*program.getArena()) + bytesOfSums(plan, stages) +
                   use.bytesOfRank() + use.bytesOfProcess();
    for (StageOp stage : stages)
      rest -= bytesOfSlots(program, stage);
    int64_t count = static_cast<int64_t>(stages.size());
    for (auto [number, stage] : llvm::enumerate(stages))
      if (stage.getId() < plan.stages.size()) {
        PlanStage &planned = plan.stages[stage.getId()];
        planned.memoryBytes =
            bytesOfSlots(program, stage) + rest / count + (number == 0 ? rest % count : 0);
        planned.libraryBytes = number == 0 ? use.bytesOfProcess() : 0;
      }
  }
  plan.libraryBytes = together.bytesOfProcess();
}

} // namespace pdc
