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

/// Peak of this process in bytes. Not getrusage: that keeps the peak of whoever started the process.
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
  control.gather(process + " " + std::to_string(peakBytes()) + " " +
                     std::to_string(arena.bytes()),
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
  std::snprintf(text, sizeof text, "trained to step %lld in %s: loss %.4f, %s samples/s",
                (long long)state.step, clockText(spent).c_str(), progress->lastLoss(),
                grouped(std::llround(rateNow)).c_str());
  progress->line(text);
  double share = evaluated.weight > 0 ? evaluated.correct / evaluated.weight : 0;
  char accuracy[60] = "";
  if (evaluatedAt >= 0) {
    std::snprintf(accuracy, sizeof accuracy, "\"accuracy\": %.9g, ", share);
    std::snprintf(text, sizeof text, "evaluation: accuracy %.2f %% of %s samples, loss %.4f",
                  100 * share, grouped(std::llround(evaluated.weight)).c_str(),
                  evaluated.meanLoss());
    progress->line(text);
  }
  progress->line("a minibatch took " + milliseconds(measured) + " (median), predicted " +
                 milliseconds(program.secondsPerMinibatch));
  progress->line(memory);
  std::string plan = findBeside("plan.txt");
  for (const auto &[what, where] : {std::pair<std::string, std::string>{"trace", options.trace},
                                    {"checkpoint", checkpoint},
                                    {"log", options.log},
                                    {"plan", plan}})
    if (!where.empty())
      progress->line(what + ": " + where);
  std::snprintf(text, sizeof text,
                "{\"summary\": true, \"step\": %lld, \"loss\": %.17g, %s"
                "\"samples_per_second\": %.3f, \"median_step_seconds\": %.9f, "
                "\"predicted_step_seconds\": %.9f, \"peak_memory_bytes\": %.0f}",
                (long long)state.step, progress->lastLoss(), accuracy, rateNow, measured,
                program.secondsPerMinibatch, peak);
  progress->log(text);
}

} // namespace pdc::runtime
