#include "runtime/QuantityText.h"
#include "runtime/Trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>

/// What a run says at its end.
namespace pdc::runtime {

static std::string megabytes(double bytes) { return grouped(std::llround(bytes / 1e6)) + " MB"; }

/// What the plan beside the program says that some ranks need in one process; 0 where there is
/// none. In floats, which no number in a damaged file overflows.
static double plannedBytes(int first, int last) {
  std::ifstream file(findBeside("plan.json"));
  auto plan = nlohmann::json::parse(file, nullptr, false);
  if (!plan.is_object() || !plan.contains("stages"))
    return 0;
  double bytes = 0, libraries = 0;
  for (const auto &stage : plan["stages"])
    for (int number : stage.value("ranks", std::vector<int>()))
      if (number >= first && number <= last) {
        bytes += stage.value("memory_bytes", 0.0);
        libraries += stage.value("library_bytes", 0.0);
      }
  // Threads of one process, which are all ranks, have the libraries once.
  return first == last ? bytes : bytes - libraries + plan.value("library_bytes", 0.0);
}

/// As a shell in this folder would name it, where it lies below.
static std::string fromHere(const std::string &path) {
  std::error_code ignored;
  std::string relative = std::filesystem::proximate(path, ignored).string();
  return relative.empty() || relative.starts_with("..") ? path : relative;
}

namespace {
/// A process with its ranks: threads share it.
struct ProcessMemory {
  int first = 0, last = 0;
  /// `own`: the most that it had for itself, of which an empty program has `empty`.
  double highest = 0, own = 0, empty = 0, planned = 0, data = 0, trace = 0;

  std::string ranks() const {
    std::string text = std::to_string(first);
    return first == last ? "rank " + text : "ranks " + text + "-" + std::to_string(last);
  }
  /// Beyond an empty program; what is kept of data files and for the trace is no part of the plan.
  double held() const { return own - empty - data - trace; }

  std::string text() const {
    constexpr double kTold = 5e5; // else it would be 0 MB
    return ranks() + " " + megabytes(held()) + " of " + megabytes(planned) + " planned" +
           (data >= kTold ? " and " + megabytes(data) + " of data" : "") +
           (trace > 0 ? " and " + megabytes(trace) + " for the trace" : "");
  }

  std::string json() const {
    char text[240];
    std::snprintf(text, sizeof text,
                  "{\"ranks\": [%d, %d], \"bytes\": %.0f, \"planned\": %.0f, \"data\": %.0f, "
                  "\"trace\": %.0f}",
                  first, last, held(), planned, data, trace);
    return text;
  }
};
} // namespace

/// Peak memory by process and rank, against the plan; `json` gets the same as a list.
std::vector<std::string> Trainer::describeMemory(std::string &json) {
  const MemoryInUse now = memoryInUse();
  // Starting takes memory that small programs then do without: a peak is one that came later.
  const int64_t own = now.highest > started.highest ? now.highestOwn : now.own;
  std::ostringstream mine;
  mine << hostName() << ":" << getpid() << " " << now.highest << " " << own << " " << started.own
       << " " << data.heldBytes() + (evaluationData ? evaluationData->heldBytes() : 0) << " "
       << arena.bytes() << " " << executor.timeline().heldBytes();
  std::vector<std::string> all;
  control.gather(mine.str(), all);
  std::map<std::string, ProcessMemory> processes;
  std::vector<std::string> order;
  std::string arenas;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream fields(all[rank]);
    std::string name;
    double highest = 0, own = 0, empty = 0, kept = 0, arenaBytes = 0, events = 0;
    fields >> name >> highest >> own >> empty >> kept >> arenaBytes >> events;
    auto [found, isNew] = processes.try_emplace(name);
    ProcessMemory &process = found->second;
    if (isNew) {
      order.push_back(name);
      process = {int(rank), int(rank), highest, own, empty};
    }
    process.last = int(rank);
    process.empty = std::min(process.empty, empty);
    process.data += kept;
    process.trace += events;
    arenas += (rank ? ", rank " : "rank ") + std::to_string(rank) + " " + megabytes(arenaBytes);
  }
  double total = 0;
  std::string held;
  json.clear();
  for (const std::string &name : order) {
    ProcessMemory &process = processes[name];
    process.planned = plannedBytes(process.first, process.last);
    total += process.highest;
    held += (held.empty() ? "" : ", ") + process.text();
    json += (json.empty() ? "" : ", ") + process.json();
  }
  json =
      "\"peak_memory_bytes\": " + std::to_string(int64_t(total)) + ", \"memory\": [" + json + "]";
  return {"peak memory " + megabytes(total) + " in " + std::to_string(order.size()) +
              (order.size() == 1 ? " process" : " processes") + "; arenas: " + arenas,
          "beyond an empty program: " + held};
}

void Trainer::summarise() {
  std::string memoryJson;
  std::vector<std::string> memory = describeMemory(memoryJson);
  if (!progress)
    return;
  char text[400];
  double measured = progress->medianSeconds(), spent = progress->trainingSeconds();
  double rateNow = spent > 0 ? double(progress->samples()) / spent : 0;
  bool trained = state.step > firstStep;
  std::string json = "{\"summary\": true, \"step\": " + std::to_string(state.step);
  if (trained) {
    std::snprintf(text, sizeof text, "trained to step %lld in %s: loss %.4f, %s samples/s",
                  (long long)state.step, clockText(spent).c_str(), progress->lastLoss(),
                  grouped(std::llround(rateNow)).c_str());
    progress->line(text);
    json += ", \"loss\": " + jsonNumber(progress->lastLoss());
  }
  if (evaluatedAt >= 0) {
    const std::string metric = evaluated.text(true);
    progress->line("evaluation: " + metric + (metric.empty() ? "" : ", ") + "loss " +
                   fixed(evaluated.totals.meanLoss(), 4));
    json += evaluated.json();
  }
  if (trained) {
    progress->line("a minibatch took " + secondsText(measured) + " (median), predicted " +
                   secondsText(program.secondsPerMinibatch));
    std::snprintf(text, sizeof text,
                  ", \"samples_per_second\": %.3f, \"median_step_seconds\": %.9f", rateNow,
                  measured);
    json += text;
  }
  for (const std::string &line : memory)
    progress->line(line);
  std::snprintf(text, sizeof text, ", \"predicted_step_seconds\": %.9f, ",
                program.secondsPerMinibatch);
  progress->log(json + text + memoryJson + "}");
}

/// Behind what they hold.
void Trainer::nameFiles() {
  if (!progress)
    return;
  for (const auto &[what, where] : {std::pair<std::string, std::string>{"trace", options.trace},
                                    {"checkpoint", checkpoint},
                                    {"log", progress->isLogged() ? options.log : ""}})
    if (!where.empty())
      progress->line(what + ": " + where);
  std::string plan = fromHere(findBeside("plan.json"));
  if (state.step > firstStep && !options.trace.empty() && !plan.empty())
    progress->line("where this run differs from its plan: pdc-prove " + plan + " " + options.trace);
  std::string file = fromHere(findBeside("plan.txt"));
  char text[400];
  std::snprintf(text, sizeof text, "plan: %s, ranks %d, microbatches %lld of %lld samples%s",
                program.schedule, program.ranks, (long long)program.microbatches,
                (long long)program.microbatchSize, file.empty() ? "" : "; ");
  progress->line(text + file);
}

/// Last, where a signal ended the run early: where it stands and how it goes on.
void Trainer::tellTheEnd() {
  if (!progress || !stopped)
    return;
  std::string where = "stopped behind step " + std::to_string(state.step) + " of " +
                      std::to_string(totalSteps) + ": ";
  if (checkpoint.empty())
    progress->line(where + "nothing was saved, for there was no --save");
  else
    progress->line(where + "go on with --resume " + checkpoint);
}

} // namespace pdc::runtime
