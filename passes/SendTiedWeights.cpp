#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/SumUnit.h"
#include "passes/TiedWeights.h"
#include "passes/Values.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <optional>

namespace pdc {
#define GEN_PASS_DEF_SENDTIEDWEIGHTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct SendTiedWeights : impl::SendTiedWeightsBase<SendTiedWeights> {
  using SendTiedWeightsBase::SendTiedWeightsBase;
  explicit SendTiedWeights(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      if (getOperation()->hasAttr("pdc.asynchronous"))
        send();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void send() {
    plan = choosePlan(plan, planFile);
    device = deviceOf(plan.get());
    WeightFamilies families(getOperation());
    findHomes(families);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      bringHome(function, families);
      sendValues(function, families);
      returnGradients(function);
    }
  }

  /// A family that several stages use lives in the earliest of them.
  void findHomes(const WeightFamilies &families) {
    std::map<std::string, std::set<int64_t>> users;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (const WeightFamilies::Use &use : families.usesIn(function))
        users[use.family].insert(static_cast<int64_t>(*UnitOp(use.unit).getStage()));
    for (const auto &[family, stages] : users)
      if (stages.size() > 1)
        homes[family] = *stages.begin();
  }

  std::optional<int64_t> homeOf(Value value, const WeightFamilies &families) const {
    auto found = homes.find(families.of(value));
    return found == homes.end() ? std::nullopt : std::optional(found->second);
  }

  /// What prepares and updates it goes there, with all that makes what the update reads.
  void bringHome(func::FuncOp function, const WeightFamilies &families) {
    llvm::DenseSet<Operation *> moved;
    SmallVector<UnitOp> units(function.getOps<UnitOp>());
    for (UnitOp unit : llvm::reverse(units)) {
      bool updates = taskPhase(unit) == ir::Phase::Update;
      if (!updates && unit.getRate() != Rate::Version)
        continue;
      for (Value operand : unit.getOperands())
        if (std::optional<int64_t> home = homeOf(operand, families))
          moveTo(*home, unit, moved);
      for (Operation *user : unit->getUsers())
        if (updates && moved.contains(user))
          moveTo(static_cast<int64_t>(*cast<UnitOp>(user).getStage()), unit, moved);
    }
  }

  static void moveTo(int64_t stage, UnitOp unit, llvm::DenseSet<Operation *> &moved) {
    unit.setStage(stage);
    moved.insert(unit);
  }

  /// Other stages read a copy that the home makes for each microbatch.
  void sendValues(func::FuncOp function, const WeightFamilies &families) {
    bool trains = function.getSymName() == "train";
    llvm::DenseMap<Value, Value> copies;
    for (const WeightFamilies::Use &use : families.usesIn(function)) {
      std::optional<int64_t> home = homeOf(use.operand->get(), families);
      UnitOp reader = use.unit;
      if (!home || *home == static_cast<int64_t>(*reader.getStage()))
        continue;
      Value value = use.operand->get();
      Value &copy = copies[value];
      if (!copy) {
        OpBuilder builder(value.getContext());
        builder.setInsertionPointAfterValue(value);
        UnitPlace place{reader.getOrigin(), trains ? ir::Phase::Forward : reader.getPhase(),
                        Rate::Microbatch};
        copy = copyTo(*home, value, "/sent", place, builder);
      }
      use.operand->set(copy);
    }
  }

  /// The gradients of all uses are summed where the weight is updated.
  void returnGradients(func::FuncOp function) {
    llvm::StringMap<int64_t> summedIn; ///< by memory: the stage that reads the sum
    for (auto read : function.getOps<ReadOp>())
      for (Operation *user : read->getUsers())
        if (auto unit = dyn_cast<UnitOp>(user); unit && taskPhase(unit) == ir::Phase::Update)
          summedIn[read.getMemory()] = static_cast<int64_t>(*unit.getStage());
    // By sum and the stage that the gradients are of.
    llvm::MapVector<std::pair<StringAttr, uint64_t>, SmallVector<AccumulateOp>> sent;
    for (auto addition : function.getOps<AccumulateOp>()) {
      auto maker = addition.getValue().getDefiningOp<UnitOp>();
      auto found = summedIn.find(addition.getMemory());
      if (maker && found != summedIn.end() &&
          found->second != static_cast<int64_t>(*maker.getStage()))
        sent[{addition.getMemoryAttr().getAttr(), *maker.getStage()}].push_back(addition);
    }
    for (auto &[of, additions] : sent) {
      AccumulateOp last = additions.pop_back_val();
      if (!additions.empty())
        addUp(additions, last);
      OpBuilder builder(last);
      const UnitPlace place = placeOf(last);
      last.getValueMutable().set(
          copyTo(summedIn[of.first], last.getValue(), "/received", place, builder));
    }
  }

  static UnitPlace placeOf(AccumulateOp addition) {
    auto maker = addition.getValue().getDefiningOp<UnitOp>();
    return {maker.getOrigin(), maker.getPhase(), Rate::Microbatch};
  }

  /// Their values are added where they are made, and by the last alone to the sum.
  void addUp(ArrayRef<AccumulateOp> additions, AccumulateOp last) {
    SmallVector<Value> terms{last.getValue()};
    for (AccumulateOp addition : additions)
      terms.push_back(addition.getValue());
    NodeNames names(last->getParentOp());
    OpBuilder builder(last);
    UnitOp sum = createSum(builder, last.getLoc(), names.unique(last.getMemory() + "/returned"),
                           placeOf(last), terms, device);
    sum.setStage(*last.getValue().getDefiningOp<UnitOp>().getStage());
    last.getValueMutable().set(sum.getResult(0));
    for (AccumulateOp addition : additions)
      addition.erase();
  }

  /// A loop over the value as it lies.
  Value copyTo(int64_t stage, Value value, const char *ending, const UnitPlace &place,
               OpBuilder &builder) {
    NodeNames names(builder.getInsertionBlock()->getParentOp());
    UnitOp unit = createSum(builder, value.getLoc(), names.unique(tensorName(value) + ending),
                            place, value, device);
    unit.setStage(stage);
    return unit.getResult(0);
  }

  std::shared_ptr<const Plan> plan;
  DeviceOptions device;
  std::map<std::string, int64_t> homes; ///< by family
};

} // namespace

std::unique_ptr<Pass> createSendTiedWeights(std::shared_ptr<const Plan> plan) {
  return std::make_unique<SendTiedWeights>(std::move(plan));
}

} // namespace pdc
