#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Text.h"
#include "compiler/simulator/PlanSimulation.h"

#include <cmath>

namespace pdc {

namespace {

using nlohmann::ordered_json;

double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

/// Of sums over ranks; null for all else.
const char *sumName(StepKind kind) {
  return kind == StepKind::allReduce         ? "all_reduce"
         : kind == StepKind::reduceGradients ? "reduce_gradients"
                                             : nullptr;
}

std::string labelOf(const Plan &plan, const Event &event) {
  if (const char *sum = sumName(event.kind))
    return sum;
  if (event.edge >= 0)
    return plan.edges[event.edge].tensor;
  return letter(event.task.phase) + std::to_string(event.task.microbatch);
}

ordered_json toJson(const Plan &plan, const Event &event) {
  const char *sum = sumName(event.kind);
  const std::string_view cat = sum                               ? sum
                               : event.kind == StepKind::send    ? "send"
                               : event.kind == StepKind::receive ? "receive"
                                                                 : phaseCategory(event.task.phase);
  ordered_json json = {
      {"name", labelOf(plan, event)},
      {"cat", cat},
      {"ph", "X"},
      {"ts", microseconds(event.start)},
      {"dur", microseconds(event.end - event.start)},
      {"pid", event.rank},
      {"tid", event.edge >= 0 ? 1 : 0},
      {"args", {{"stage", event.task.stage}, {"microbatch", event.task.microbatch}}}};
  if (event.peer >= 0)
    json["args"]["peer"] = event.peer;
  return json;
}

ordered_json nameOf(int rank, int stream, const char *kind, const std::string &name) {
  return {{"name", kind}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", {{"name", name}}}};
}

} // namespace

std::string predictTrace(const Plan &plan, int64_t iterations) {
  std::string text = "{\"traceEvents\": [";
  const char *separator = "\n";
  auto add = [&](const ordered_json &event) {
    text += separator + event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    separator = ",\n";
  };
  PlanSimulation simulation = simulate(plan, iterations);
  for (int rank = 0; rank < static_cast<int>(simulation.busySeconds.size()); ++rank) {
    add(nameOf(rank, 0, "process_name", "rank " + std::to_string(rank) + " (predicted)"));
    add(nameOf(rank, 0, "thread_name", "compute"));
    add(nameOf(rank, 1, "thread_name", "transfers"));
  }
  for (const Event &event : simulation.events)
    add(toJson(plan, event));
  return text + "\n]}\n";
}

} // namespace pdc
