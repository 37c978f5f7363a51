#pragma once

#include "compiler/plan/MakePlan.h"

namespace pdc {

/// Workers side by side on links of a megabyte per second without latency.
inline PlanRequest requestFor(int workers, const char *schedule, int64_t microbatches) {
  PlanRequest request;
  request.workers = workers;
  request.schedule = schedule;
  request.microbatches = microbatches;
  request.model = "chain.onnx";
  request.topology = Topology{{{workers, {1e6, 0}}}, 0, "cpu"};
  request.microbatchSize = 4;
  return request;
}

} // namespace pdc
