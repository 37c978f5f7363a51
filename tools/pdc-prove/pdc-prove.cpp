#include "compiler/plan/Files.h"
#include "compiler/schedule/Arrangement.h"
#include "tools/Command.h"
#include "tools/pdc-prove/HeldRows.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>

namespace pdc {
namespace {

/// What was recorded of an asynchronous schedule repeats nothing: it is one run from its first step
/// to its last.
Schedule asOneRun(const Schedule &schedule) {
  bool repeats = std::ranges::any_of(schedule.ranks,
                                     [](const RankRows &rows) { return !rows.repeat.empty(); });
  Schedule run = schedule;
  if (schedule.asynchronous && !repeats) {
    run.asynchronous = false;
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

void prove(const std::string &plan, const std::vector<std::string> &files) {
  Plan planned = readPlan(plan);
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

} // namespace
} // namespace pdc

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    CLI::App app("Proves rows as stage programs hold them (--check) and operations as they have "
                 "issued them (--record)",
                 "pdc-prove");
    pdc::nameUsageErrors(app);
    std::string plan;
    std::vector<std::string> files;
    app.add_option("PLAN", plan, "plan.json in the folder that pdc wrote")->required();
    app.add_option("FILE", files, "what --check printed, and what --record wrote")->required();
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      return app.exit(error) ? 2 : 0;
    }
    pdc::prove(plan, files);
    return 0;
  });
}
