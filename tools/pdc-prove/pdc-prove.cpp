#include "compiler/plan/Files.h"
#include "compiler/schedule/Arrangement.h"
#include "tools/Command.h"
#include "tools/pdc-prove/HeldRows.h"
#include "tools/pdc-prove/RunTimes.h"
#include "tools/pdc-prove/Trace.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>

namespace pdc {
namespace {

/// What was recorded of an asynchronous schedule repeats nothing: it is one run from its first step
/// to its last. Which weights it reads is another proof (checkData).
Schedule asOneRun(const Schedule &schedule) {
  bool repeats = std::ranges::any_of(schedule.ranks,
                                     [](const RankRows &rows) { return !rows.repeat.empty(); });
  Schedule run = schedule;
  if (schedule.asynchronous && !repeats) {
    run.asynchronous = false;
    run.weightRule = WeightRule::stashed;
    run.microbatches = microbatchesOfRound(schedule, 0);
  }
  return run;
}

/// Those of pairs in the order of their rank, whatever its tasks; all of them in their queues.
void proveCalls(const UnrolledRows &calls, Arrangement arrangement) {
  if (arrangement == Arrangement::pairs)
    if (std::optional<Deadlock> found = findDeadlock(calls))
      throw Error("the calls stand still: " + found->text);
  if (std::optional<std::string> found = findStall(calls, arrangement))
    throw Error(*found);
}

void proveRows(const Plan &planned, const std::vector<std::string> &files) {
  HeldRows rows(planned.schedule);
  for (const std::string &file : files) {
    std::ifstream text(file);
    if (!text)
      throw Error(file + ": cannot be read");
    rows.read(text, file);
  }
  std::map<std::string, Held> schedules = rows.schedules();
  if (schedules.empty())
    throw Error("the files hold no rows; give what stage programs print with --check or --record");
  std::vector<Edge> edges = rows.edges();
  rows.recordedCalls().check();
  for (const auto &[name, one] : schedules)
    try {
      proveNoDeadlock(asOneRun(one.schedule), edges);
      if (one.calls)
        proveCalls(*one.calls, rows.recordedCalls().arrangement());
      checkData(one.schedule, edges);
      if (planned.exact)
        checkOrder(one.schedule, edges);
      std::cout << name << ": proven, " << one.schedule.ranks.size() << " ranks";
      if (one.schedule.microbatches < planned.schedule.microbatches)
        std::cout << ", " << one.schedule.microbatches << " of " << planned.schedule.microbatches
                  << " microbatches";
      std::cout << '\n';
    } catch (const Error &error) {
      throw Error(name + ": " + error.what());
    }
}

RunComparison compareTrace(const Plan &planned, const std::string &trace) {
  const TaskTimes measured = readTrace(trace, planned);
  try {
    return compareRun(planned, measured);
  } catch (const Error &error) {
    throw Error(trace + ": " + error.what());
  }
}

void prove(const std::string &plan, const std::vector<std::string> &files,
           const std::string &jsonFile) {
  const Plan planned = readPlan(plan);
  std::vector<std::string> rows, traces;
  for (const std::string &file : files)
    (isTrace(file) ? traces : rows).push_back(file);
  if (!jsonFile.empty() && traces.size() != 1)
    throw Error("--json: writes the times of one trace, found " + std::to_string(traces.size()) +
                "; give what one run wrote with --trace");
  if (!rows.empty())
    proveRows(planned, rows);
  for (const std::string &trace : traces) {
    const RunComparison comparison = compareTrace(planned, trace);
    std::cout << trace << ": tasks in the order of the plan\n";
    describeTimes(comparison, std::cout);
    if (!jsonFile.empty())
      writeTextFile(jsonFile, timesJson(comparison));
  }
}

} // namespace
} // namespace pdc

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    CLI::App app("Proves rows as stage programs hold them (--check) and operations as they have "
                 "issued them (--record), and says by which tasks or waits a traced run (--trace) "
                 "differs from its plan",
                 "pdc-prove");
    pdc::nameUsageErrors(app);
    std::string plan, jsonFile;
    std::vector<std::string> files;
    app.add_option("PLAN", plan, "plan.json in the folder that pdc wrote")->required();
    app.add_option("FILE", files, "what --check printed, and what --record and --trace wrote")
        ->required();
    app.add_option("--json", jsonFile, "write the times of a trace to this file");
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      return app.exit(error) ? 2 : 0;
    }
    pdc::prove(plan, files, jsonFile);
    return 0;
  });
}
