#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/ReplayMemory.h"
#include "passes/ScheduleRows.h"

#include "compiler/schedule/Proof.h"

namespace pdc {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    bool proven = refuseAt(getOperation(), [&] {
      prove(Rows::training);
      prove(Rows::evaluation);
    });
    if (!proven)
      return signalPassFailure();
    for (auto program : getOperation().getOps<ProgramOp>())
      if (!refuseAt(program, [&] { replayMemory(program); }))
        return signalPassFailure();
  }

private:
  void prove(Rows rows) {
    TaggedEdges edges = findEdges(getOperation(), rows);
    Schedule schedule = readSchedule(getOperation(), rows, edges);
    if (rows == Rows::evaluation)
      schedule = unrollEvaluation(schedule, 2 * static_cast<int64_t>(schedule.ranks.size()) + 2);
    checkRows(schedule, edges.edges);
    proveNoDeadlock(schedule, edges.edges);
    if (rows == Rows::training)
      checkData(schedule, edges.edges);
  }
};

} // namespace
} // namespace pdc
