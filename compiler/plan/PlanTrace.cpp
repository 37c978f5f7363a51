#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Text.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <cmath>
#include <span>

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

/// How many iterations hold about so many events; at least one. What stays on its rank is no event.
int64_t iterationsOf(const Plan &plan, int64_t events) {
  const size_t crossing = std::ranges::count_if(plan.edges, [&](const Edge &edge) {
    return !plan.schedule.shareRanks(edge.fromStage, edge.toStage);
  });
  const size_t ofMicrobatch = 2 * (plan.stages.size() + crossing);
  const int64_t microbatches = plan.schedule.asynchronous ? 1 : plan.schedule.microbatches;
  return std::max<int64_t>(1, events / (static_cast<int64_t>(ofMicrobatch) * microbatches));
}

std::string whatIsLeftOut(const Plan &plan, int64_t iterations, int64_t shown,
                          std::span<const Event> later) {
  std::string text;
  if (shown < iterations)
    text = std::to_string(iterations - shown) + " of " + std::to_string(iterations) +
           (plan.schedule.asynchronous ? " microbatches" : " minibatches");
  if (!later.empty())
    text += (text.empty() ? "" : " and ") + std::to_string(later.size()) + " events from " +
            std::to_string(later.front().start) + " s on";
  return text;
}

} // namespace

PredictedTrace predictTrace(const Plan &plan, int64_t iterations, int64_t mostEvents) {
  std::string text = "{\"traceEvents\": [";
  const char *separator = "\n";
  auto add = [&](const ordered_json &event) {
    text += separator + event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    separator = ",\n";
  };
  const int64_t shown = std::min(iterations, iterationsOf(plan, mostEvents));
  const PlanSimulation simulation = simulate(plan, shown);
  for (int rank = 0; rank < static_cast<int>(simulation.busySeconds.size()); ++rank) {
    add(nameOf(rank, 0, "process_name", "rank " + std::to_string(rank) + " (predicted)"));
    add(nameOf(rank, 0, "thread_name", "compute"));
    add(nameOf(rank, 1, "thread_name", "transfers"));
  }
  const std::span<const Event> events = simulation.events;
  const size_t count = std::min(events.size(), static_cast<size_t>(mostEvents));
  for (const Event &event : events.first(count))
    add(toJson(plan, event));
  text += "\n]";
  const std::string leftOut = whatIsLeftOut(plan, iterations, shown, events.subspan(count));
  if (!leftOut.empty())
    text += ", \"otherData\": " + ordered_json{{"left out", leftOut}}.dump();
  return {text + "}\n", leftOut};
}

} // namespace pdc
