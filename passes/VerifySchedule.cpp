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
    const ReadRows training = prove(Rows::training), evaluation = prove(Rows::evaluation);
    for (auto program : getOperation().getOps<ProgramOp>())
      if (!refuseAt(program, [&] { replayMemory(program, training, evaluation); }))
        return failure();
    return success();
  }

  ReadRows prove(Rows which) {
    ReadRows rows = readRows(getOperation(), which);
    proveNoDeadlock(rows.schedule, rows.edges.edges);
    checkData(rows.schedule, rows.edges.edges);
    return rows;
  }
};

} // namespace
} // namespace pdc
