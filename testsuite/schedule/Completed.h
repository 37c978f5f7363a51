#pragma once

#include "compiler/Error.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Transfers.h"

#include <span>
#include <string>

namespace pdc {

/// The schedule of this name over a straight pipeline, with its transfers.
inline Schedule complete(const char *name, int stages, int64_t microbatches) {
  return completeSchedule(findSchedule(name).make(straightPipeline(stages, microbatches)),
                          chainEdges(stages));
}

/// An evaluation with its transfers, as place-transfers puts them.
inline Schedule completeEvaluation(const Pipeline &pipeline, std::span<const Edge> edges) {
  Schedule schedule = evaluation(pipeline);
  placeTransfersOfEvaluation(schedule, edges);
  return completeSchedule(schedule, edges);
}

/// What the proofs say against a schedule over a chain of stages, or "accepted".
inline std::string refusal(const Schedule &schedule) {
  std::vector<Edge> edges = chainEdges(schedule.stages());
  try {
    proveNoDeadlock(schedule, edges);
    checkData(schedule, edges);
  } catch (const Error &error) {
    return error.what();
  }
  return "accepted";
}

} // namespace pdc
