#include "passes/ProgramMemory.h"

#include "compiler/Error.h"
#include "compiler/plan/PlanMemory.h"
#include "passes/Nodes.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

// What programs hold for themselves beyond the same ones just started, with Debian's oneDNN 2.6 and
// Open MPI 4.1, and a little more, for it varies from run to run. Of a process: what the C++
// library and the transport keep; of oneDNN, its engine.
static constexpr int64_t kKiB = 1 << 10;
static constexpr int64_t processBytes = 40 * kKiB;
static constexpr int64_t engineBytes = 24 * kKiB;
// All of oneDNN's generated products of plain matrices, which is what it has for them under AVX2
// and for some convolutions, and the copies of matrices that they make.
static constexpr int64_t plainBytes = 1960 * kKiB;

// Of a rank: its objects, and those of each kernel that has one.
static constexpr int64_t rankBytes = 52 * kKiB;
static constexpr int64_t bytesPerKernel = 1200;
// Of a rank that is a thread beside others: its stack and what memory is given to it from.
static constexpr int64_t threadBytes = 112 * kKiB;
// Of all but one of up to so many together: a step by which their heaps grow, in some runs and not
// in others.
static constexpr int64_t heapStepBytes = 96 * kKiB;
static constexpr int64_t mostHeapSteps = 3;
// What runs a primitive, beside what oneDNN keeps: the first of equal ones, and each other.
static constexpr int64_t bytesPerPrimitive = 8 * kKiB;
static constexpr int64_t bytesPerEqualPrimitive = 5 * kKiB;
// Of a tensor that another rank sends or gets, for each such rank: the transport's buffers on
// either side, which are more where messages wait in them for who takes them, as those of Open MPI
// do up to 4 KiB. Where there are many, most find buffers that others have left.
static constexpr int64_t bytesPerEdge = 16 * kKiB;
static constexpr int64_t bytesPerBufferedEdge = 24 * kKiB;
static constexpr int64_t mostBufferedBytes = 4096;
static constexpr size_t edgesWithOwnBuffers = 8;
// A step by which those buffers grow where ranks wait for one another longer than usual.
static constexpr int64_t bufferStepBytes = 40 * kKiB;
static constexpr int64_t bytesPerFurtherEdge = 8 * kKiB;
// Of a rank with replicas: the thread of its sums, and what MPI keeps for its messages with each of
// the others, the less the fewer there are.
static constexpr int64_t sumsThreadBytes = 88 * kKiB;
static constexpr int64_t bytesPerShare(int64_t others) {
  return std::min<int64_t>(96, 24 + 5 * others) * kKiB;
}
static constexpr int64_t bytesPerBufferedShare = 52 * kKiB;

// What oneDNN keeps of a primitive and its generated code.
static constexpr int64_t poolingBytes = 15 * kKiB;
static constexpr int64_t reorderBytes = 14 * kKiB;
static constexpr int64_t directBytes = 26 * kKiB;
static constexpr int64_t winogradBytes = 40 * kKiB;
static constexpr int64_t pointwiseBytes = 60 * kKiB; ///< windows of one pixel
static constexpr int64_t plainProductBytes = 16 * kKiB;

/// A weight that does not lie as the primitive reads it has a reorder before it.
static bool packsWeight(DictionaryAttr fields) {
  auto layout = fields.getAs<StringAttr>("weightLayout");
  return layout && layout.empty();
}

static int64_t convolutionBytes(DictionaryAttr fields) {
  auto algorithm = fields.getAs<StringAttr>("algorithm");
  auto weight = fields.getAs<DenseI64ArrayAttr>("weight");
  int64_t bytes = packsWeight(fields) ? reorderBytes : 0;
  if (algorithm && algorithm.getValue() == "winograd")
    return bytes + winogradBytes;
  const bool isPointwise = weight && llvm::all_of(weight.asArrayRef().drop_front(2),
                                                  [](int64_t size) { return size == 1; });
  return bytes + (isPointwise ? pointwiseBytes : directBytes);
}

/// A product has a generated kernel for its blocks and further ones for what is left of columns and
/// of terms, each the larger the more it does behind the product; another copies a transposed
/// operand.
static int64_t productBytes(DictionaryAttr fields, bool adds) {
  auto sizes = [&](StringRef name) {
    auto field = fields.getAs<DenseI64ArrayAttr>(name);
    return field ? field.asArrayRef() : ArrayRef<int64_t>();
  };
  auto isSet = [&](StringRef name) {
    auto field = fields.getAs<IntegerAttr>(name);
    return field && field.getInt() != 0;
  };
  auto leavesRest = [](ArrayRef<int64_t> sizes, size_t fromEnd, int64_t block) {
    const int64_t size = sizes.size() < fromEnd ? 1 : sizes[sizes.size() - fromEnd];
    return size > block && size % block != 0;
  };
  const bool restOfTerms = leavesRest(sizes("a"), isSet("transA") ? 2 : 1, 512);
  const int64_t kernels = 1 + leavesRest(sizes("output"), 1, 64) + 2 * restOfTerms;
  const int64_t each = isSet("relu") ? 31 : adds ? 21 : 16;
  const int64_t copies = isSet("transA") || isSet("transB") ? 8 : 0;
  return ((adds ? 28 : 20) + copies + kernels * each) * kKiB;
}

namespace {
struct Primitives {
  int count;
  int64_t bytes;
};
} // namespace

/// Of a kernel; none: it does not call oneDNN.
static Primitives primitivesOf(KernelAttr kernel) {
  const StringRef name = kernel.getName();
  const DictionaryAttr fields = kernel.getFields();
  if (name == "MatrixProduct") { // one makes the product, another adds it to a sum
    const bool isPlain = kernel.getMultipliesPlain();
    const int64_t bytes = isPlain ? plainProductBytes : productBytes(fields, false);
    const int64_t adding = isPlain ? plainProductBytes : productBytes(fields, true);
    return kernel.getAccumulates() ? Primitives{2, bytes + adding} : Primitives{1, bytes};
  }
  if (name.starts_with("Convolution")) { // forward there is one with a bias and one without
    const int calls = name == "Convolution" ? 2 : 1;
    return {packsWeight(fields) ? 2 * calls : calls, calls * convolutionBytes(fields)};
  }
  if (name.starts_with("Pooling"))
    return {1, poolingBytes};
  return name == "Reorder" ? Primitives{1, reorderBytes} : Primitives{0, 0};
}

/// Loops are part of the source: there is no object of theirs.
static bool isLoop(KernelAttr kernel) {
  return kernel.getName() == "Elementwise" || kernel.getName() == "Broadcast";
}

/// Units that run twice or in several tasks share a kernel under one name; before names are given
/// each has its own.
void LibraryUse::add(UnitOp unit) {
  if (!unit.getKernel() || isLoop(*unit.getKernel()))
    return;
  const KernelAttr kernel = *unit.getKernel();
  plain |= kernel.getMultipliesPlain();
  llvm::StringSet<> &names = primitivesOf(kernel).count ? calls[withoutName(kernel)] : kernels;
  names.insert(unit.getVariable() ? unit.getVariable()->str() : "#" + std::to_string(names.size()));
}

void LibraryUse::add(const LibraryUse &other) {
  plain |= other.plain;
  for (const auto &[kernel, names] : other.calls)
    calls[kernel].insert(names.begin(), names.end());
  kernels.insert(other.kernels.begin(), other.kernels.end());
}

int64_t LibraryUse::bytesOfProcess() const {
  int64_t bytes = processBytes + (calls.empty() ? 0 : engineBytes) + (plain ? plainBytes : 0);
  for (const auto &[kernel, names] : calls)
    bytes += primitivesOf(cast<KernelAttr>(kernel)).bytes;
  return bytes;
}

int64_t LibraryUse::bytesOfRank() const {
  int64_t bytes = rankBytes + static_cast<int64_t>(kernels.size()) * bytesPerKernel;
  for (const auto &[kernel, names] : calls) {
    const auto others = static_cast<int64_t>(names.size()) - 1;
    bytes += primitivesOf(cast<KernelAttr>(kernel)).count *
             (bytesPerPrimitive + others * bytesPerEqualPrimitive);
  }
  return bytes;
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

/// Which microbatch has each slot, of training and of evaluation, and the version that it reads.
static int64_t bytesOfOwners(ProgramOp program) {
  constexpr int64_t bytesPerSlot = 16;
  int64_t slots = 0;
  for (auto region : program.getRegionsAttr().getAsRange<DictionaryAttr>())
    if (const StringRef name = region.getAs<StringAttr>("name").getValue();
        name.starts_with("slots.") || name == "evaluation")
      slots += region.getAs<IntegerAttr>("copies").getInt();
  return slots * bytesPerSlot;
}

/// A rank has room for the sums of one stage over its replicas at a time.
static int64_t bytesOfSums(const Plan &plan, ArrayRef<StageOp> stages) {
  int64_t most = 0;
  for (StageOp stage : stages)
    if (stage.getId() < plan.stages.size())
      most = std::max(most, reductionBytes(plan.device, plan.stages[stage.getId()]));
  return most ? most + sumsThreadBytes : 0;
}

static int64_t bytesOfShares(const Plan &plan, ArrayRef<StageOp> stages) {
  int64_t most = 0;
  for (StageOp stage : stages)
    if (stage.getId() < plan.stages.size()) {
      const PlanStage &planned = plan.stages[stage.getId()];
      const int64_t others = planned.replicas - 1;
      const bool isLong = planned.gradientBytes / planned.replicas > mostBufferedBytes;
      most = std::max(most, others * (isLong ? bytesPerShare(others) : bytesPerBufferedShare));
    }
  return most;
}

/// Replicas take turns: one of `own` meets only some of the others where both have a common factor.
static int64_t countPeers(int64_t own, int64_t others) { return others / std::gcd(own, others); }

static int64_t bytesOfEdges(const Plan &plan, ArrayRef<StageOp> stages) {
  auto isHere = [&](int id) {
    return llvm::any_of(stages, [&](StageOp stage) { return int(stage.getId()) == id; });
  };
  std::vector<std::pair<int64_t, int64_t>> tensors; ///< bytes with one peer, and how many there are
  for (const Edge &edge : plan.edges) {
    if (isHere(edge.fromStage) == isHere(edge.toStage))
      continue;
    int64_t own = plan.stages[edge.fromStage].replicas, others = plan.stages[edge.toStage].replicas;
    if (isHere(edge.toStage))
      std::swap(own, others);
    const int64_t peers = countPeers(own, others);
    const bool isBuffered = edge.bytes <= mostBufferedBytes;
    tensors.emplace_back(isBuffered ? bytesPerBufferedEdge : bytesPerEdge, peers);
  }
  std::ranges::sort(tensors, std::greater<>());
  const bool hasBuffered = !tensors.empty() && tensors[0].first == bytesPerBufferedEdge;
  int64_t bytes = hasBuffered ? bufferStepBytes : 0;
  for (auto [number, tensor] : llvm::enumerate(tensors))
    bytes += tensor.second * (number < edgesWithOwnBuffers ? tensor.first : bytesPerFurtherEdge);
  return bytes;
}

/// Those of one microbatch, through which inputs come to the arena. Random numbers are not read.
static int64_t bytesOfInputsBeside(const Plan &plan, ProgramOp program) {
  int64_t bytes = 0;
  if (holdsInputsBeside(plan.device))
    for (auto memory : program.getOps<MemoryOp>())
      if (memory.getRole() == Role::Input && memory.getHome()->getRegion().starts_with("slots.") &&
          !memory.getSymName().starts_with("pdc."))
        bytes += memory.getHome()->getBytes();
  return bytes;
}

void setMemory(Plan &plan, ModuleOp programs) {
  // What libraries hold of the host's memory is not an accelerator's.
  const bool onHost = plan.device == "cpu";
  LibraryUse together;
  for (auto program : programs.getOps<ProgramOp>()) {
    if (!program.getArena() || !program.getRegions())
      throw Error("program @" + program.getSymName().str() +
                  " has no arena; run plan-memory first");
    const LibraryUse use = useOf(program);
    together.add(use);
    auto stages = llvm::to_vector(program.getOps<StageOp>());
    const auto arena = static_cast<int64_t>(*program.getArena());
    // Threads have one place for a message, which is in the arena.
    const int64_t once =
        onHost ? use.bytesOfProcess() + bytesOfEdges(plan, stages) + bytesOfShares(plan, stages)
               : 0;
    int64_t rest = arena + bytesOfSums(plan, stages) + bytesOfInputsBeside(plan, program) + once;
    if (onHost)
      rest += spreadBytes(arena) + use.bytesOfRank() + bytesOfOwners(program);
    for (StageOp stage : stages)
      rest -= bytesOfSlots(program, stage);
    int64_t count = static_cast<int64_t>(stages.size());
    for (auto [number, stage] : llvm::enumerate(stages))
      if (stage.getId() < plan.stages.size()) {
        PlanStage &planned = plan.stages[stage.getId()];
        planned.memoryBytes =
            bytesOfSlots(program, stage) + rest / count + (number == 0 ? rest % count : 0);
        planned.libraryBytes = number == 0 ? once : 0;
      }
  }
  if (!onHost)
    return;
  std::set<int> threads;
  for (const PlanStage &stage : plan.stages)
    threads.insert(stage.ranks.begin(), stage.ranks.end());
  const auto count = static_cast<int64_t>(threads.size());
  plan.libraryBytes = together.bytesOfProcess() + count * threadBytes +
                      std::clamp<int64_t>(count - 1, 0, mostHeapSteps) * heapStepBytes;
}

} // namespace pdc
