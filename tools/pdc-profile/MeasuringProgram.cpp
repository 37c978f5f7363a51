#include "tools/pdc-profile/MeasuringProgram.h"

#include "compiler/plan/Bounds.h"
#include "compiler/plan/Profile.h"
#include "passes/Passes.h"
#include "passes/PlanGraph.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

namespace pdc {

static constexpr int64_t kMostMeasuredRounds = 4, kLeastStepsOfRound = 5;

MeasuringProgram::MeasuringProgram(const Options &options, const std::filesystem::path &project,
                                   std::ostream &progress)
    : project(project), lowering(options, progress) {
  PlannedGraph planned = lowering.chooseGraph();
  graph = planned.module->clone();
  batch = planned.batch;
  (*planned.module)->setAttr(kMeasuresUnitsAttribute,
                             mlir::UnitAttr::get(planned.module->getContext()));
  lowering.cut(planned);
  lowering.outline(planned);
  lowering.schedule(planned);
  lowering.checkMemory(*planned.plan);
  plan = planned.plan;
  measured = {numberUnits(*planned.module), batch.microbatches};
  if (!project.empty())
    lowering.write(planned, project);
}

/// What runs alone says how long copies may take at most.
static Round measureRound(const Rounds &request, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Round round;
  round.alone = round.beside = round.versioned = request.program.measure(request.data, steps);
  auto taken = std::chrono::ceil<std::chrono::seconds>(Clock::now() - start);
  if (request.copies > 0)
    round.beside = request.program.measure(request.data, steps,
                                           {request.copies, std::chrono::minutes(1) + 20 * taken});
  if (request.versioned)
    round.versioned = request.versioned->measure(request.data, steps);
  return round;
}

std::vector<Round> measureRounds(const Rounds &request) {
  int64_t count = std::clamp<int64_t>(request.steps / kLeastStepsOfRound, 1, kMostMeasuredRounds);
  std::vector<Round> rounds;
  for (int64_t round = 0; round < count; ++round)
    rounds.push_back(measureRound(request, (request.steps + count - 1) / count));
  return rounds;
}

UnitTimes meanTimes(const std::vector<Round> &rounds) {
  UnitTimes means;
  auto count = static_cast<double>(rounds.size());
  for (const Round &round : rounds)
    for (const auto &[name, time] : round.alone) {
      means[name].seconds += time.seconds / count;
      means[name].lowerQuartile += time.lowerQuartile / count;
      means[name].upperQuartile += time.upperQuartile / count;
      means[name].first += time.first / count;
      means[name].later += time.later / count;
    }
  return means;
}

static PlanGraph graphOf(mlir::ModuleOp module, const UnitTimes &times) {
  mlir::OwningOpRef<mlir::ModuleOp> timed(module.clone());
  applyTimes(*timed, times);
  return makePlanGraph(*timed);
}

static PlanGraph graphOf(mlir::ModuleOp module, const UnitTimes &times, double UnitTime::*part) {
  UnitTimes parts;
  for (const auto &[name, time] : times)
    parts[name].seconds = time.*part;
  return graphOf(module, parts);
}

void addAccumulation(PlanGraph &graph, mlir::ModuleOp module, const UnitTimes &times) {
  const PlanGraph first = graphOf(module, times, &UnitTime::first),
                  later = graphOf(module, times, &UnitTime::later);
  for (size_t number = 0; number < graph.units.size(); ++number) {
    const double once = first.units[number].backwardWeightSeconds,
                 added = later.units[number].backwardWeightSeconds;
    if (once <= 0 || added <= once)
      continue;
    graph.units[number].backwardWeightSeconds = once;
    graph.units[number].accumulationSlowdown = std::min(added / once, kMostSlowdown);
  }
}

static double updateSeconds(const PlanUnit &unit) { return unit.updateSeconds; }

/// What a round says of all units.
struct RoundGraphs {
  PlanGraph alone, beside, versioned;
};

/// What was measured with several versions trains without a flush, which seeds the gradient of the
/// loss in another way: its units beside the forward pass may be others, so that times are given to
/// its own module and meet in the units of the plan. `graph` itself stands in for those it lacks.
static PlanGraph inOrderOf(const PlanGraph &graph, const PlanGraph &versioned) {
  std::map<std::string, const PlanUnit *> named;
  for (const PlanUnit &unit : versioned.units)
    named[unit.name] = &unit;
  PlanGraph ordered = graph;
  for (PlanUnit &unit : ordered.units)
    if (auto found = named.find(unit.name); found != named.end())
      unit.updateSeconds = found->second->updateSeconds;
  return ordered;
}

static std::vector<RoundGraphs> graphsOf(const MeasuringProgram &program,
                                         const MeasuringProgram *versioned,
                                         const std::vector<Round> &rounds) {
  std::vector<RoundGraphs> graphs;
  for (const Round &round : rounds) {
    PlanGraph alone = graphOf(program.units(), round.alone);
    PlanGraph other =
        versioned ? inOrderOf(alone, graphOf(versioned->units(), round.versioned)) : alone;
    graphs.push_back({std::move(alone), graphOf(program.units(), round.beside), std::move(other)});
  }
  return graphs;
}

/// The middle over the rounds of a unit's `seconds` in the one of them over those alone.
static double middleRatio(const std::vector<RoundGraphs> &rounds, size_t unit,
                          PlanGraph RoundGraphs::*graph, double (*seconds)(const PlanUnit &)) {
  std::vector<double> ratios;
  for (const RoundGraphs &round : rounds) {
    double alone = seconds(round.alone.units[unit]);
    ratios.push_back(alone > 0 ? seconds((round.*graph).units[unit]) / alone : 1);
  }
  std::ranges::sort(ratios);
  double middle = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
  return std::clamp(middle, 1.0, kMostSlowdown);
}

void addSlowdowns(PlanGraph &graph, const MeasuringProgram &program,
                  const MeasuringProgram *versioned, const std::vector<Round> &rounds) {
  const std::vector<RoundGraphs> graphs = graphsOf(program, versioned, rounds);
  for (size_t number = 0; number < graph.units.size(); ++number) {
    PlanUnit &unit = graph.units[number];
    unit.slowdown = middleRatio(graphs, number, &RoundGraphs::beside, microbatchSeconds);
    unit.updateSlowdown = middleRatio(graphs, number, &RoundGraphs::beside, updateSeconds);
    unit.versionSlowdown = middleRatio(graphs, number, &RoundGraphs::versioned, updateSeconds);
  }
}

} // namespace pdc
