#include "runtime/Trainer.h"

#include <cmath>
#include <fstream>
#include <set>
#include <unistd.h>

/// What a run says at its end.
namespace pdc::runtime {

static std::string megabytes(double bytes) { return grouped(std::llround(bytes / 1e6)) + " MB"; }

static std::string milliseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

/// Peak of this process in bytes. Not getrusage: that keeps the peak of whoever started the
/// process.
static int64_t peakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::stoll(line.substr(6)) * 1024;
  return 0;
}

/// Peak memory by rank; ranks that are threads share a process, whose peak counts once.
std::string Trainer::memoryText(double &totalBytes) {
  std::string process = hostName() + ":" + std::to_string(getpid());
  std::vector<std::string> all;
  control.gather(process + " " + std::to_string(peakBytes()) + " " + std::to_string(arena.bytes()),
                 all);
  std::string text;
  std::set<std::string> processes;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream fields(all[rank]);
    std::string name;
    double peak = 0, planned = 0;
    fields >> name >> peak >> planned;
    if (processes.insert(name).second)
      totalBytes += peak;
    text +=
        (rank ? ", " : "") + std::string("rank ") + std::to_string(rank) + " " + megabytes(planned);
  }
  return "peak memory " + megabytes(totalBytes) + " in " + std::to_string(processes.size()) +
         (processes.size() == 1 ? " process" : " processes") + "; arenas: " + text;
}

void Trainer::summarise() {
  double peak = 0;
  std::string memory = memoryText(peak);
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
    double share = evaluated.weight > 0 ? evaluated.correct / evaluated.weight : 0;
    std::snprintf(text, sizeof text, "evaluation: accuracy %.2f %% of %s samples, loss %.4f",
                  100 * share, grouped(std::llround(evaluated.weight)).c_str(),
                  evaluated.meanLoss());
    progress->line(text);
    std::snprintf(text, sizeof text, ", \"accuracy\": %.9g", share);
    json += text;
  }
  if (trained) {
    progress->line("a minibatch took " + milliseconds(measured) + " (median), predicted " +
                   milliseconds(program.secondsPerMinibatch));
    std::snprintf(text, sizeof text,
                  ", \"samples_per_second\": %.3f, \"median_step_seconds\": %.9f", rateNow,
                  measured);
    json += text;
  }
  progress->line(memory);
  for (const auto &[what, where] : {std::pair<std::string, std::string>{"trace", options.trace},
                                    {"checkpoint", checkpoint},
                                    {"log", options.log},
                                    {"plan", findBeside("plan.txt")}})
    if (!where.empty())
      progress->line(what + ": " + where);
  std::snprintf(text, sizeof text,
                ", \"predicted_step_seconds\": %.9f, \"peak_memory_bytes\": %.0f}",
                program.secondsPerMinibatch, peak);
  progress->log(json + text);
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
