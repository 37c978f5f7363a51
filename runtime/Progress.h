#pragma once

#include "runtime/Control.h"

#include <cstdio>
#include <string>
#include <vector>

namespace pdc::runtime {

/// "12,345", "1:02:03".
std::string grouped(int64_t number);
std::string clockText(Seconds seconds);
/// All digits; null where JSON has no number for it.
std::string jsonNumber(double value);
/// With so many digits behind the point.
std::string fixed(double value, int digits);

/// What rank 0 tells while it trains: a line that rewrites itself on a terminal, a line now and
/// then elsewhere, and one JSON object per step in the log.
class Progress {
public:
  /// `mode`: auto, terminal, plain or none. `logFile`: "" for none.
  /// `goesOn`: what the log file holds stays.
  Progress(const std::string &mode, const std::string &logFile, bool goesOn, int64_t firstStep,
           int64_t totalSteps);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void step(int64_t step, int64_t epoch, double loss, int64_t samples, double learningRate,
            double gradientNorm);
  /// The step's update, since a gradient overflowed.
  void leftOut(int64_t step, bool halved, double lossScale);
  /// A line of its own between the others.
  void line(const std::string &text);
  void log(const std::string &json);
  /// Time that is not a step's: evaluation, saving.
  void resume() { last = now(); }
  /// Until the next step nothing of it is measured (a pipeline starts to fill).
  double medianSeconds() const;
  double lastLoss() const { return loss; }
  Seconds trainingSeconds() const { return spent; }
  int64_t samples() const { return samplesSeen; }
  /// Whether all that was said is in the log.
  bool isLogged();
  /// At the end of all else: throws Error where the log could not be written.
  void finish() const;

private:
  void show(int64_t step);
  /// Says once where the log cannot be written, and does without.
  void checkLog();

  bool terminal, quiet;
  const std::string logFile;
  std::string failure; ///< of the log
  FILE *file = nullptr;
  const int64_t firstStep, totalSteps;
  int64_t samplesSeen = 0;
  double loss = 0;
  Seconds last, spent = 0, shown = -1e9, flushed = -1e9;
  std::vector<float> seconds;
  bool lineOpen = false;
};

} // namespace pdc::runtime
