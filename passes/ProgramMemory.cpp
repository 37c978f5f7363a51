#include "passes/ProgramMemory.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"

#include <algorithm>
#include <utility>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

// What tools/bench/memory measured beside arenas with Debian's oneDNN 2.6 and Open MPI 4.1, with
// oneDNN limited to AVX-512 as Skylake has it and without a limit. Of a process: pages that any
// program touches once it trains, and those of mathematical functions.
static constexpr int64_t processBytes = int64_t(96) << 10;
static constexpr int64_t functionBytes = int64_t(155) << 10;

/// By how much the peaks of equal runs lie above their mean: 65 kB at 36 MB, next to nothing at 3
/// MB.
static int64_t spreadBytes(int64_t arena) { return std::min(arena / 256, int64_t(160) << 10); }

// Of a rank: its stack, queues of messages, pages of data files; and each kernel's objects.
static constexpr int64_t rankBytes = int64_t(280) << 10;
static constexpr int64_t bytesPerKernel = 1640;
// Of a rank with replicas: the thread of its sums, and what MPI keeps for their messages.
static constexpr int64_t sumsThreadBytes = int64_t(384) << 10;
// Of oneDNN: the code behind any primitive, less what starting the program brought into memory and
// making the first primitive gives back.
static constexpr int64_t libraryBytes = -(int64_t(430) << 10);
static constexpr int64_t convolutionBytes = int64_t(50) << 10;
// Of oneDNN's generated products of plain matrices, which is what it has for them under AVX2 and
// for some convolutions.
static constexpr int64_t gemmBytes = int64_t(3900) << 10;

/// What oneDNN keeps of a primitive, generated code included, equal ones once, in kinds of kernels
/// that call it.
static constexpr std::pair<llvm::StringLiteral, int64_t> bytesOfPrimitives[] = {
    {"MatrixProduct", int64_t(57) << 10},
    {"Convolution", int64_t(95) << 10},
    {"ConvolutionWeightGradient", int64_t(95) << 10},
    {"ConvolutionInputGradient", int64_t(95) << 10},
    {"Pooling", int64_t(98) << 10},
    {"PoolingGradient", int64_t(98) << 10},
    {"Reorder", int64_t(98) << 10}};

/// 0: it does not call oneDNN.
static int64_t primitiveBytes(StringRef kernel) {
  auto found =
      llvm::find_if(bytesOfPrimitives, [&](const auto &entry) { return entry.first == kernel; });
  return found == std::end(bytesOfPrimitives) ? 0 : found->second;
}

/// The kernel without the name of its unit.
static mlir::Attribute described(KernelAttr kernel) {
  NamedAttrList fields(kernel.getFields());
  fields.erase("name");
  return KernelAttr::get(kernel.getContext(), kernel.getName(),
                         fields.getDictionary(kernel.getContext()), kernel.getWorkspace(),
                         kernel.getAccumulates(), kernel.getCallsFunctions(),
                         kernel.getMultipliesPlain());
}

/// Units that run twice or in several tasks share a kernel under one name; before names are given
/// each has its own.
void LibraryUse::add(UnitOp unit) {
  if (!unit.getKernel())
    return;
  kernels.insert(unit.getVariable() ? unit.getVariable()->str()
                                    : "#" + std::to_string(kernels.size()));
  const KernelAttr kernel = *unit.getKernel();
  functions |= kernel.getCallsFunctions();
  gemm |= kernel.getMultipliesPlain();
  if (primitiveBytes(kernel.getName()) == 0)
    return;
  const bool isProduct = kernel.getName() == "MatrixProduct";
  convolutions |= kernel.getName().starts_with("Convolution");
  // One makes the product, another adds it to a sum.
  calls[described(kernel)] = isProduct && kernel.getAccumulates() ? 2 : 1;
}

void LibraryUse::add(const LibraryUse &other) {
  gemm |= other.gemm;
  convolutions |= other.convolutions;
  functions |= other.functions;
  calls.insert(other.calls.begin(), other.calls.end());
  for (const auto &kernel : other.kernels)
    kernels.insert(kernel.getKey());
}

int64_t LibraryUse::bytesOfProcess() const {
  int64_t bytes = processBytes + (functions ? functionBytes : 0);
  if (calls.empty())
    return bytes;
  bytes += libraryBytes + (convolutions ? convolutionBytes : 0) + (gemm ? gemmBytes : 0);
  for (auto [kernel, primitives] : calls)
    bytes += primitives * primitiveBytes(cast<KernelAttr>(kernel).getName());
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
    const auto arena = static_cast<int64_t>(*program.getArena());
    int64_t rest = arena + spreadBytes(arena) + bytesOfSums(plan, stages) + use.bytesOfRank() +
                   use.bytesOfProcess();
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
