#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"

#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Transfers.h"

namespace pdc {
#define GEN_PASS_DEF_PLACETRANSFERS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;

namespace pdc {
namespace {

struct PlaceTransfers : impl::PlaceTransfersBase<PlaceTransfers> {
  void runOnOperation() override {
    auto place = [&] {
      placeTraining();
      placeEvaluation();
      return success();
    };
    if (failed(runChecked(getOperation(), place)))
      signalPassFailure();
  }

private:
  void placeTraining() {
    TaggedEdges edges = findEdges(getOperation(), Rows::training);
    Schedule schedule = readSchedule(getOperation(), Rows::training, edges);
    placeTransfers(schedule, edges.edges);
    proveNoDeadlock(schedule, edges.edges);
    writeSchedule(getOperation(), schedule, Rows::training, edges);
  }

  void placeEvaluation() {
    TaggedEdges edges = findEdges(getOperation(), Rows::evaluation);
    Schedule schedule = readSchedule(getOperation(), Rows::evaluation, edges);
    placeTransfersOfEvaluation(schedule, edges.edges);
    proveNoDeadlock(schedule, edges.edges);
    writeSchedule(getOperation(), schedule, Rows::evaluation, edges);
  }
};

} // namespace
} // namespace pdc
