#include "passes/Buffers.h"
#include "passes/PackIntervals.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"
#include "passes/Values.h"

#include "compiler/Error.h"

#include <algorithm>
#include <map>

namespace pdc {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Lays out one program.
class ArenaPlanner {
public:
  /// `early`: the inboxes that may be filled before the forward pass of their microbatch.
  ArenaPlanner(ProgramOp program, const llvm::StringSet<> &early)
      : program(program), early(early), buffers(program) {}

  void plan() {
    checkHomes();
    collectMoments();
    placePersistent("fixed", 1);
    placePersistent("versions", ringDepth());
    placeInputs();
    for (auto stage : program.getOps<StageOp>())
      placeSlots(stage);
    placeEvaluation();
    placeScratch();
    writeHomes();
    writeRegions();
  }

private:
  struct Region {
    std::string name;
    int64_t bytes = 0;
    int64_t copies = 1;
  };

  void checkHomes() {
    for (auto memory : program.getOps<MemoryOp>())
      if (!memory.getHome() || memory.getHome()->getRegion() != buffers.regionOf(memory))
        throw Error("memory '" + memory.getSymName().str() + "' has no home in region '" +
                    buffers.regionOf(memory) + "'; run assign-homes first");
    program.walk([&](UnitOp unit) {
      if (!unit.getHomes() || unit.getHomes()->size() != unit.getNumResults())
        throw Error("unit '" + unit.getName().str() + "' has no homes; run assign-homes first");
    });
  }

  /// Numbers the operations along a microbatch's life in its stage: forward, a moment between, then
  /// backward, whole or in halves. Other tasks count for themselves.
  void collectMoments() {
    for (auto stage : program.getOps<StageOp>()) {
      int64_t moment = 0;
      for (auto task : stage.getOps<TaskOp>()) {
        if (isBackwardBegin(task.getPhase()))
          betweenTasks[stage] = moment++;
        for (Operation &op : task.getOps())
          moments[&op] = ++moment;
        ++moment;
      }
      lastMoment[stage] = moment;
    }
  }

  static bool isBackwardBegin(ir::Phase phase) {
    return phase == ir::Phase::Backward || phase == ir::Phase::BackwardInput;
  }

  int64_t ringDepth() {
    int64_t depth = 1;
    for (auto memory : program.getOps<MemoryOp>())
      depth = std::max<int64_t>(depth, memory.getDepth().value_or(1));
    return depth;
  }

  void placePersistent(const std::string &region, int64_t copies) {
    int64_t bytes = 0;
    for (auto memory : program.getOps<MemoryOp>()) {
      if (!isPersistent(memory) || memory.getHome()->getRegion() != region)
        continue;
      offsets[&buffers.of(memory)] = bytes;
      bytes += aligned(buffers.of(memory).bytes());
    }
    if (bytes > 0 || region == "fixed")
      regions.push_back({region, bytes, copies});
  }

  /// Inputs stand first, in the order of the program: evaluation finds them at the same offsets.
  /// Its copies hold those of all stages, so that a stage's begin behind those of the stages that
  /// have less of them.
  void placeInputs() {
    std::map<std::string, std::vector<const Buffer *>> byRegion;
    for (auto memory : program.getOps<MemoryOp>())
      if (memory.getRole() == Role::Input && !isPersistent(memory))
        byRegion[buffers.regionOf(memory)].push_back(&buffers.of(memory));
    std::vector<std::pair<int64_t, std::string>> order;
    for (auto &[region, inputs] : byRegion) {
      int64_t bytes = 0;
      for (const Buffer *input : inputs)
        bytes += aligned(input->bytes());
      order.push_back({bytes, region});
    }
    std::ranges::sort(order);
    for (auto &[bytes, region] : order) {
      for (const Buffer *input : byRegion[region]) {
        offsets[input] = inputBytes;
        inputBytes += aligned(input->bytes());
      }
      inputEnds[region] = inputBytes;
    }
  }

  void placeSlots(StageOp stage) {
    std::string region = "slots." + std::to_string(stage.getId());
    std::vector<const Buffer *> members = unplaced(region);
    std::vector<Interval> intervals;
    for (const Buffer *buffer : members)
      intervals.push_back(slotLife(*buffer, stage));
    int64_t bytes = pack(members, intervals, inputEnds[region]);
    int64_t copies = 1;
    for (int64_t slot : stage.getSlots().value_or(ArrayRef<int64_t>()))
      copies = std::max(copies, slot + 1);
    regions.push_back({region, bytes, copies});
  }

  std::vector<const Buffer *> unplaced(const std::string &region) {
    std::vector<const Buffer *> found;
    for (const Buffer *buffer : buffers.all())
      if (!buffer->memories.empty() && !offsets.contains(buffer) &&
          buffers.regionOf(buffer->memories[0]) == region)
        found.push_back(buffer);
    return found;
  }

  int64_t pack(const std::vector<const Buffer *> &members, const std::vector<Interval> &intervals,
               int64_t start) {
    Packing packing = packIntervals(intervals, start);
    for (size_t i = 0; i < members.size(); ++i)
      offsets[members[i]] = packing.offsets[i];
    return packing.bytes;
  }

  Interval life(const Buffer &buffer) {
    Interval interval{std::numeric_limits<int64_t>::max(), -1, buffer.bytes()};
    auto touch = [&](int64_t moment) {
      interval.begin = std::min(interval.begin, moment);
      interval.end = std::max(interval.end, moment);
    };
    for (Value value : buffer.values) {
      if (!isRead(value.getDefiningOp()))
        touch(moments.lookup(value.getDefiningOp()));
      for (Operation *user : value.getUsers())
        touch(moments.lookup(user));
    }
    return interval;
  }

  /// What is sent stays until the slot is taken anew; what is received may come as soon as the task
  /// before its first reader has ended.
  Interval slotLife(const Buffer &buffer, StageOp stage) {
    Interval interval = life(buffer);
    for (MemoryOp memory : buffer.memories) {
      if (memory.getRole() == Role::Outbox)
        interval.end = lastMoment[stage];
      if (memory.getRole() == Role::Inbox)
        interval.begin = std::min(interval.begin, arrival(memory, stage, interval.begin));
    }
    return interval;
  }

  int64_t arrival(MemoryOp inbox, StageOp stage, int64_t firstRead) {
    int64_t between = betweenTasks[stage];
    return firstRead > between && !early.contains(inbox.getSymName()) ? between : 0;
  }

  void placeEvaluation() {
    int64_t bytes = inputBytes;
    for (const Buffer *buffer : unplaced("evaluation")) {
      offsets[buffer] = bytes;
      bytes += aligned(buffer->bytes());
    }
    regions.push_back({"evaluation", bytes, evaluationCopies});
  }

  /// Tasks run one after another: each starts with an empty scratch behind the workspace.
  void placeScratch() {
    program.walk([&](UnitOp unit) {
      if (unit.getKernel())
        workspace = std::max(workspace, unit.getKernel()->getWorkspace());
    });
    std::map<Operation *, std::vector<const Buffer *>> byTask;
    for (const Buffer *buffer : buffers.all())
      if (buffer->memories.empty() && !buffer->values.empty())
        byTask[buffer->values[0].getDefiningOp()->getParentOp()].push_back(buffer);
    int64_t bytes = aligned(workspace);
    for (auto &[task, members] : byTask) {
      std::vector<Interval> intervals;
      for (const Buffer *buffer : members)
        intervals.push_back(life(*buffer));
      bytes = std::max(bytes, pack(members, intervals, workspace));
    }
    regions.push_back({"scratch", bytes, 1});
  }

  HomeAttr placed(HomeAttr home, const Buffer &buffer, int64_t behind) {
    auto offset = offsets.find(&buffer);
    if (offset == offsets.end())
      throw Error("a value of " + std::to_string(home.getBytes()) + " bytes in region '" +
                  home.getRegion().str() + "' lies in no task; run assign-homes again");
    return HomeAttr::get(program.getContext(), home.getRegion(), offset->second + behind,
                         home.getBytes());
  }

  void writeHomes() {
    for (auto memory : program.getOps<MemoryOp>())
      memory.setHomeAttr(placed(*memory.getHome(), buffers.of(memory), buffers.offsetOf(memory)));
    program.walk([&](UnitOp unit) {
      SmallVector<mlir::Attribute> homes;
      for (auto [home, result] : llvm::zip(*unit.getHomes(), unit.getResults()))
        homes.push_back(placed(cast<HomeAttr>(home), buffers.of(result), buffers.offsetOf(result)));
      unit.setHomesAttr(ArrayAttr::get(program.getContext(), homes));
    });
  }

  void writeRegions() {
    Builder builder(program.getContext());
    SmallVector<mlir::Attribute> list;
    int64_t arena = 0;
    for (const Region &region : regions) {
      list.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("name", builder.getStringAttr(region.name)),
           builder.getNamedAttr("offset", builder.getI64IntegerAttr(arena)),
           builder.getNamedAttr("stride", builder.getI64IntegerAttr(aligned(region.bytes))),
           builder.getNamedAttr("copies", builder.getI64IntegerAttr(region.copies))}));
      arena += aligned(region.bytes) * region.copies;
    }
    program.setRegionsAttr(builder.getArrayAttr(list));
    program.setArena(arena);
    program.setWorkspace(workspace);
  }

  ProgramOp program;
  const llvm::StringSet<> &early;
  Buffers buffers;
  std::map<const Buffer *, int64_t> offsets;
  std::vector<Region> regions;
  int64_t inputBytes = 0, workspace = 0;
  std::map<std::string, int64_t> inputEnds; ///< by region: where the stage's inputs end
  llvm::DenseMap<Operation *, int64_t> moments;
  llvm::DenseMap<Operation *, int64_t> betweenTasks, lastMoment;
};

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  LogicalResult run() {
    const std::vector<llvm::StringSet<>> early = findEarlyArrivals(getOperation());
    for (auto [number, op] : llvm::enumerate(getOperation().getOps<ProgramOp>())) {
      ProgramOp program = op;
      if (!refuseAt(program, [&, number = number] { ArenaPlanner(program, early[number]).plan(); }))
        return failure();
    }
    return success();
  }
};

} // namespace
} // namespace pdc
