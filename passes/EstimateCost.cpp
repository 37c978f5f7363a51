#include "compiler/cost/Device.h"
#include "compiler/devices/Device.h"
#include "compiler/plan/Profile.h"
#include "passes/EstimatedSlowdowns.h"
#include "passes/KernelWork.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_ESTIMATECOST
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

double storedBytes(Type type) {
  return static_cast<double>(bytesInLayout(toTensorType(type), layoutOf(type)));
}

/// Whether a value stays inside the kernel: made and read there, never in memory.
bool isInternal(Value value) {
  return !value.use_empty() &&
         llvm::none_of(value.getUsers(), [](Operation *user) { return isa<YieldOp>(user); });
}

/// The sum of its nodes' costs, without the bytes of values between them, which stay in registers,
/// and of results that nobody reads, which no kernel writes. A view costs nothing.
Cost costOf(UnitOp unit) {
  Cost total;
  if (!unit.getKernel())
    return total;
  for (auto node : unit.getBody().front().getOps<NodeOp>()) {
    if (isConstant(node))
      continue;
    checkTypes(node);
    Cost cost = NodeFacts(node).cost(node.getResultTypes());
    total.flops += cost.flops;
    total.bytes += cost.bytes;
    for (Value result : node.getResults())
      if (result.use_empty())
        total.bytes -= storedBytes(result.getType());
      else if (isInternal(result))
        total.bytes -= 2 * storedBytes(result.getType());
  }
  total.bytes = std::max(total.bytes, 0.0);
  return total;
}

/// What the unit's kernel computes in.
Precision precisionOf(UnitOp unit) {
  auto compute = unit.getKernel()->getFields().getAs<StringAttr>("compute");
  return compute ? precisionNamed(compute.getValue()) : Precision::fp32;
}

/// Replaces estimates by measured seconds, which a profile has per forward unit and phase: the
/// units planned with it share them in proportion to their estimates.
class MeasuredSeconds {
public:
  MeasuredSeconds(const Profile &profile, ArrayRef<UnitOp> units, int64_t microbatch) {
    if (microbatch > 0 && profile.microbatchSize > 0)
      perMicrobatch = static_cast<double>(microbatch) / static_cast<double>(profile.microbatchSize);
    for (const PlanUnit &unit : profile.graph.units)
      measured[unit.name] = &unit;
    addCompanions(profile, units);
    for (UnitOp unit : units) {
      if (!measured.contains(unit.getOrigin()))
        throw Error("the profile of '" + profile.model + "' has no unit '" +
                    unit.getOrigin().str() +
                    "'; make one with pdc-profile for this model, microbatch size and device");
      if (unit.getPhase() != ir::Phase::Evaluate)
        estimates[key(unit)] += unit.getSeconds()->convertToDouble();
    }
  }

  double operator()(UnitOp unit) {
    double estimate = unit.getSeconds()->convertToDouble(), sum = estimates[key(unit)];
    return sum > 0 ? estimate * secondsOf(unit) / sum : 0;
  }

private:
  /// A forward unit that was planned with another (the loss weight with the loss) has no entry of
  /// its own: its nodes stand in the other's.
  void addCompanions(const Profile &profile, ArrayRef<UnitOp> units) {
    llvm::StringMap<const PlanUnit *> hosts;
    for (const PlanUnit &unit : profile.graph.units)
      for (const std::string &node : unit.nodes)
        hosts[node] = &unit;
    for (UnitOp unit : units)
      for (auto node : unit.getBody().front().getOps<NodeOp>())
        if (unit.getName() == unit.getOrigin() && hosts.contains(node.getName()))
          measured.try_emplace(unit.getName(), hosts.lookup(node.getName()));
  }

  /// Evaluation runs the kernels of the forward pass, preparation is part of the update.
  static ir::Phase phaseOf(UnitOp unit) {
    if (unit.getPhase() == ir::Phase::Evaluate)
      return ir::Phase::Forward;
    return unit.getPhase() == ir::Phase::Prepare ? ir::Phase::Update : unit.getPhase();
  }
  std::pair<const PlanUnit *, ir::Phase> key(UnitOp unit) const {
    return {planned(unit), phaseOf(unit)};
  }
  /// As in PlanGraph: a change of layout in the forward pass is a unit of its own there.
  const PlanUnit *planned(UnitOp unit) const {
    bool isForward = unit.getPhase() == ir::Phase::Forward && measured.contains(unit.getName());
    return measured.lookup(isForward ? unit.getName() : unit.getOrigin());
  }
  double secondsOf(UnitOp unit) {
    const PlanUnit &found = *planned(unit);
    switch (phaseOf(unit)) {
    case ir::Phase::Forward:
      return perMicrobatch * found.forwardSeconds;
    case ir::Phase::BackwardInput:
      return perMicrobatch * found.backwardInputSeconds;
    case ir::Phase::BackwardWeight:
      return perMicrobatch * found.backwardWeightSeconds;
    default:
      return found.updateSeconds;
    }
  }

  double perMicrobatch = 1; ///< samples for each that was measured
  llvm::StringMap<const PlanUnit *> measured;
  std::map<std::pair<const PlanUnit *, ir::Phase>, double> estimates;
};

/// Seconds of a planned unit's kernels, alone and while all other cores compute.
struct BothSeconds {
  double alone = 0, beside = 0;

  double slowdown() const { return alone > 0 ? beside / alone : 1; }
};

struct EstimateCost : pdc::impl::EstimateCostBase<EstimateCost> {
  using EstimateCostBase::EstimateCostBase;

  void runOnOperation() override {
    auto body = [&] {
      run();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void run() {
    const DevicePeaks &peaks = findDevicePeaks(device);
    SmallVector<UnitOp> units;
    for (auto function : getOperation().getOps<func::FuncOp>())
      llvm::append_range(units, function.getOps<UnitOp>());
    for (UnitOp unit : units)
      estimate(unit, peaks);
    if (profile.empty())
      return;
    Profile measured = readProfile(profile.getValue());
    MeasuredSeconds seconds(measured, units, microbatch);
    for (UnitOp unit : units)
      unit.setSecondsAttr(Builder(unit).getF64FloatAttr(seconds(unit)));
  }

  void estimate(UnitOp unit, const DevicePeaks &peaks) {
    Cost cost = costOf(unit);
    double seconds = 0;
    if (auto kernel = unit.getKernel())
      seconds = kernelSeconds(peaks, std::string_view(kernel->getName()), workOf(unit, cost),
                              threads, precisionOf(unit));
    Builder builder(unit);
    unit.setFlopsAttr(builder.getF64FloatAttr(cost.flops));
    unit.setBytesAttr(builder.getF64FloatAttr(cost.bytes));
    unit.setSecondsAttr(builder.getF64FloatAttr(seconds));
  }
};

} // namespace

void pdc::addEstimatedSlowdowns(PlanGraph &graph, ModuleOp module, llvm::StringRef device,
                                int threads) {
  const DevicePeaks &alone = findDevicePeaks(device);
  const DevicePeaks beside = besideOthers(alone);
  llvm::StringMap<BothSeconds> microbatches, updates;
  llvm::StringSet<> planned;
  for (const PlanUnit &unit : graph.units)
    planned.insert(unit.name);
  for (auto unit : module.lookupSymbol<func::FuncOp>("train").getOps<UnitOp>()) {
    auto kernel = unit.getKernel();
    if (!kernel)
      continue;
    const StringRef name = planned.contains(unit.getName()) ? unit.getName() : unit.getOrigin();
    const bool isUpdate =
        unit.getPhase() == ir::Phase::Update || unit.getPhase() == ir::Phase::Prepare;
    BothSeconds &sum = (isUpdate ? updates : microbatches)[name];
    const KernelWork work = workOf(unit, ::costOf(unit));
    for (auto [peaks, seconds] : {std::pair(&alone, &sum.alone), {&beside, &sum.beside}})
      *seconds += kernelSeconds(*peaks, std::string_view(kernel->getName()), work, threads,
                                precisionOf(unit));
  }
  for (PlanUnit &unit : graph.units) {
    unit.slowdown = microbatches.lookup(unit.name).slowdown();
    unit.updateSlowdown = updates.lookup(unit.name).slowdown();
  }
}
