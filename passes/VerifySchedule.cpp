#include "passes/Passes.h"
#include "passes/Refusal.h"
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
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  LogicalResult run() {
    prove(Rows::training);
    prove(Rows::evaluation);
    for (auto program : getOperation().getOps<ProgramOp>())
      if (!refuseAt(program, [&] { replayMemory(program); }))
        return failure();
    return success();
  }

  void prove(Rows rows) {
    TaggedEdges edges = findEdges(getOperation(), rows);
    Schedule schedule = readSchedule(getOperation(), rows, edges);
    proveNoDeadlock(schedule, edges.edges);
    checkData(schedule, edges.edges);
  }
};

} // namespace
} // namespace pdc
