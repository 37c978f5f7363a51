#include "tools/pdc-profile/MeasuringProgram.h"

#include "compiler/plan/Bounds.h"
#include "compiler/plan/Profile.h"
#include "passes/PlanGraph.h"

#include <algorithm>
#include <chrono>

namespace pdc {

static constexpr int64_t kMostMeasuredRounds = 4, kLeastStepsOfRound = 5;

MeasuringProgram::MeasuringProgram(const Options &options, const std::filesystem::path &project,
                                   std::ostream &progress)
    : project(project), lowering(options, progress) {
  PlannedGraph planned = lowering.chooseGraph();
  graph = planned.module->clone();
  batch = planned.batch;
  lowering.cut(planned);
  lowering.outline(planned);
  lowering.schedule(planned);
  plan = planned.plan;
  numbers = numberUnits(*planned.module);
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
    }
  return means;
}

static PlanGraph graphOf(mlir::ModuleOp module, const UnitTimes &times) {
  mlir::OwningOpRef<mlir::ModuleOp> timed(module.clone());
  applyTimes(*timed, times);
  return makePlanGraph(*timed);
}

static double updateSeconds(const PlanUnit &unit) { return unit.updateSeconds; }

/// By unit: the middle over the rounds of `seconds` in the one of them over those alone.
static std::vector<double> middleRatios(mlir::ModuleOp module, const std::vector<Round> &rounds,
                                        UnitTimes Round::*times,
                                        double (*seconds)(const PlanUnit &)) {
  std::vector<std::vector<double>> ratios;
  for (const Round &round : rounds) {
    PlanGraph alone = graphOf(module, round.alone), other = graphOf(module, round.*times);
    ratios.resize(alone.units.size());
    for (size_t unit = 0; unit < ratios.size(); ++unit) {
      double least = seconds(alone.units[unit]);
      ratios[unit].push_back(least > 0 ? seconds(other.units[unit]) / least : 1);
    }
  }
  std::vector<double> middles;
  for (std::vector<double> &all : ratios) {
    std::ranges::sort(all);
    double middle = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
    middles.push_back(std::clamp(middle, 1.0, kMostSlowdown));
  }
  return middles;
}

void addSlowdowns(PlanGraph &graph, mlir::ModuleOp module, const std::vector<Round> &rounds) {
  auto set = [&](double PlanUnit::*field, UnitTimes Round::*times,
                 double (*seconds)(const PlanUnit &)) {
    std::vector<double> ratios = middleRatios(module, rounds, times, seconds);
    for (size_t unit = 0; unit < graph.units.size(); ++unit)
      graph.units[unit].*field = ratios[unit];
  };
  set(&PlanUnit::slowdown, &Round::beside, microbatchSeconds);
  set(&PlanUnit::updateSlowdown, &Round::beside, updateSeconds);
  set(&PlanUnit::versionSlowdown, &Round::versioned, updateSeconds);
}

} // namespace pdc
