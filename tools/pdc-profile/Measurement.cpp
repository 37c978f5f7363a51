#include "tools/pdc-profile/Measurement.h"

#include "codegen/MeasuredUnits.h"
#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "passes/Values.h"
#include "tools/pdc-profile/Copies.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace mlir;
namespace fs = std::filesystem;

namespace pdc {

static ir::UnitOp producer(Value value) {
  return dyn_cast_or_null<ir::UnitOp>(behindViews(value).getDefiningOp());
}

/// The unit whose time ends with this operation; null where none does.
static ir::UnitOp timedUnit(Operation &op) {
  if (auto unit = dyn_cast<ir::UnitOp>(op))
    return unit.getKernel() ? unit : ir::UnitOp();
  if (auto accumulate = dyn_cast<ir::AccumulateOp>(op); accumulate && !accumulate.getFused())
    return producer(accumulate.getValue());
  return {};
}

std::vector<std::string> numberUnits(ModuleOp module) {
  std::vector<std::string> numbers;
  module.walk([&](ir::TaskOp task) {
    if (task.getPhase() == ir::Phase::Evaluate)
      return;
    for (Operation &op : task.getBody().front())
      if (ir::UnitOp unit = timedUnit(op)) {
        op.setAttr(kUnitTimeAttribute,
                   Builder(&op).getI64IntegerAttr(static_cast<int64_t>(numbers.size())));
        numbers.push_back(unit.getName().str());
      }
  });
  return numbers;
}

/// Runs pdc-run beside this program with its output in a file.
static void runProject(const fs::path &folder, const std::vector<std::string> &words) {
  std::error_code ignored;
  fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "pdc-run";
  fs::path log = folder / "profile.log";
  std::vector<std::string> all{program.string(), folder.string(), "--transport", "local"};
  all.insert(all.end(), words.begin(), words.end());
  fs::remove(log);
  if (waitForProgram(startProgram(all, log)) != 0)
    throw Error("the measuring program failed; its output:\n" + readTextFile(log));
}

/// The first runs fill caches and touch memory.
static UnitTime summarise(std::vector<double> runs) {
  size_t warmUp = runs.size() > 1 ? std::max<size_t>(1, runs.size() / 10) : 0;
  runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(warmUp));
  std::sort(runs.begin(), runs.end());
  auto at = [&](double share) {
    return runs[static_cast<size_t>(share * static_cast<double>(runs.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.25), at(0.75), at(0.5), at(0.5)};
}

/// Of a unit that runs for each microbatch; those of an update begin with its first.
static UnitTime summarise(const std::vector<double> &runs, int64_t microbatches) {
  UnitTime time = summarise(runs);
  std::vector<double> first, later;
  for (size_t run = 0; run < runs.size(); ++run)
    (static_cast<int64_t>(run) % microbatches ? later : first).push_back(runs[run]);
  time.first = summarise(std::move(first)).seconds;
  time.later = summarise(std::move(later)).seconds;
  return time;
}

/// By how much the units of a round take longer together than the sum of their medians: what slows
/// some of them down now and then, a neighbour on the machine above all, is a part of most rounds
/// and of the median of no unit. A round is a microbatch or an update: the runs of the same number
/// of all units that run as often. By number of runs.
static std::map<size_t, double> roundsOverUnits(const std::vector<std::vector<double>> &units) {
  std::map<size_t, std::vector<double>> rounds;
  std::map<size_t, double> apart;
  for (const std::vector<double> &runs : units) {
    std::vector<double> &sums = rounds[runs.size()];
    sums.resize(runs.size());
    for (size_t run = 0; run < runs.size(); ++run)
      sums[run] += runs[run];
    apart[runs.size()] += summarise(runs).seconds;
  }
  std::map<size_t, double> factors;
  for (const auto &[count, sums] : rounds)
    factors[count] = apart[count] > 0 ? std::max(1.0, summarise(sums).seconds / apart[count]) : 1;
  return factors;
}

/// The seconds of each run, by number.
static std::vector<std::vector<double>> readRuns(const fs::path &path, size_t count) {
  if (!fs::exists(path))
    throw Error(path.string() + ": no such file; the measuring program writes it");
  nlohmann::json file = nlohmann::json::parse(readTextFile(path), nullptr, false);
  std::vector<std::vector<double>> units;
  try {
    units = file.at("units").get<std::vector<std::vector<double>>>();
  } catch (const nlohmann::json::exception &) {
    throw Error(path.string() + ": expected the times that a measuring program writes");
  }
  if (units.size() != count)
    throw Error(path.string() + ": expected the times of " + std::to_string(count) +
                " units, found " + std::to_string(units.size()) +
                "; give the options that the measuring program was written with");
  return units;
}

UnitTimes readUnitTimes(const fs::path &path, const TimedUnits &measured) {
  const std::vector<std::string> &numbers = measured.numbers;
  std::vector<std::vector<double>> units = readRuns(path, numbers.size());
  for (size_t number = 0; number < numbers.size(); ++number)
    if (units[number].empty())
      throw Error("unit '" + numbers[number] + "' did not run");
  const size_t most = std::ranges::max(units, {}, &std::vector<double>::size).size();
  const auto microbatches = static_cast<size_t>(std::max<int64_t>(measured.microbatches, 1));
  // The first update fills caches.
  if (most % microbatches != 0 || most < 2 * microbatches)
    throw Error(path.string() + ": expected two updates of " + std::to_string(microbatches) +
                " microbatches or more, found " + std::to_string(most) +
                " runs of a unit; give the options that the measuring program was written with");
  std::map<size_t, double> factors = roundsOverUnits(units);
  UnitTimes times;
  for (size_t number = 0; number < numbers.size(); ++number) {
    const std::vector<double> &runs = units[number];
    const bool adds = measured.microbatches > 1 && runs.size() == most;
    UnitTime part = adds ? summarise(runs, measured.microbatches) : summarise(runs);
    UnitTime &unit = times[numbers[number]];
    const double factor = factors[runs.size()];
    unit.seconds += factor * part.seconds;
    unit.lowerQuartile += factor * part.lowerQuartile;
    unit.upperQuartile += factor * part.upperQuartile;
    unit.first += factor * part.first;
    unit.later += factor * part.later;
  }
  return times;
}

UnitTimes measureUnits(const fs::path &folder, const TimedUnits &units,
                       const std::vector<std::string> &data, int64_t steps, const Beside &beside) {
  Copies copies(folder, data, beside.copies, beside.most);
  fs::path file = folder / "unit_times.json";
  fs::remove(file);
  setenv("PDC_UNIT_TIMES", file.c_str(), 1);
  std::vector<std::string> words{"--steps=" + std::to_string(steps)};
  for (const std::string &text : data)
    words.push_back("--data=" + text);
  runProject(folder, words);
  copies.check();
  unsetenv("PDC_UNIT_TIMES");
  return readUnitTimes(file, units);
}

void applyTimes(ModuleOp module, const UnitTimes &times) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  for (auto unit : train.getOps<ir::UnitOp>()) {
    auto found = times.find(unit.getName().str());
    if (unit.getKernel() && found == times.end())
      throw Error("unit '" + unit.getName().str() + "' is in no task of the measured program");
    double seconds = unit.getKernel() ? found->second.seconds : 0;
    unit.setSecondsAttr(Builder(unit).getF64FloatAttr(seconds));
  }
}

} // namespace pdc
