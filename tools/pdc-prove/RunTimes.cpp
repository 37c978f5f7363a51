#include "tools/pdc-prove/RunTimes.h"

#include "compiler/schedule/Text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace pdc {
namespace {

/// Of so many phases those that are furthest from their plan are named.
constexpr size_t kMostPhases = 12;

template <class... Values> std::string formatted(const char *format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string paceLine(const char *name, const Pace &pace) {
  return formatted("  %-38s %10.3f ms   bubble %5.1f %%\n", name, 1e3 * pace.secondsPerMinibatch,
                   100 * pace.idle);
}

double distance(const PhaseSeconds &phase) { return std::abs(phase.measured - phase.planned); }

} // namespace

void describeTimes(const RunComparison &comparison, std::ostream &out) {
  const Pace &planned = comparison.planned, &played = comparison.played,
             &measured = comparison.measured;
  out << "a minibatch, of " << comparison.minibatches << ":\n"
      << paceLine("planned", planned) << paceLine("played with each task's own seconds", played)
      << paceLine("measured", measured);
  out << formatted("  tasks take %+.3f ms of the difference, messages and waiting %+.3f ms\n",
                   1e3 * (played.secondsPerMinibatch - planned.secondsPerMinibatch),
                   1e3 * (measured.secondsPerMinibatch - played.secondsPerMinibatch));
  std::vector<PhaseSeconds> phases = comparison.phases;
  std::ranges::stable_sort(phases, std::greater<>(), distance);
  phases.resize(std::min(phases.size(), kMostPhases));
  out << (phases.size() < comparison.phases.size() ? "tasks furthest from their plan" : "tasks")
      << ", medians:\n";
  for (const PhaseSeconds &phase : phases)
    out << formatted("  rank %d, stage %d, %-17s planned %10.3f ms, measured %10.3f ms\n",
                     phase.rank, phase.stage, phaseName(phase.phase).data(), 1e3 * phase.planned,
                     1e3 * phase.measured);
}

std::string timesJson(const RunComparison &comparison) {
  using nlohmann::ordered_json;
  auto pace = [](const Pace &one) {
    return ordered_json{{"seconds_per_minibatch", one.secondsPerMinibatch}, {"bubble", one.idle}};
  };
  ordered_json json = {{"minibatches", comparison.minibatches},
                       {"planned", pace(comparison.planned)},
                       {"played", pace(comparison.played)},
                       {"measured", pace(comparison.measured)}};
  for (size_t i = 0; i < comparison.playedEach.size(); ++i)
    json["each"].push_back({{"played", pace(comparison.playedEach[i])},
                            {"measured", pace(comparison.measuredEach[i])}});
  for (const PhaseSeconds &phase : comparison.phases)
    json["phases"].push_back({{"rank", phase.rank},
                              {"stage", phase.stage},
                              {"phase", std::string(1, letter(phase.phase))},
                              {"planned_seconds", phase.planned},
                              {"measured_seconds", phase.measured}});
  return json.dump(1) + "\n";
}

} // namespace pdc
