#pragma once

#include "runtime/Checkpoint.h"
#include "runtime/Dataset.h"
#include "runtime/EvaluationText.h"
#include "runtime/MemoryInUse.h"
#include "runtime/Options.h"
#include "runtime/Progress.h"
#include "runtime/Tuning.h"

#include <functional>
#include <map>
#include <memory>

namespace pdc::runtime {

/// What this rank was told, once all ranks have been told the same. Throws Error that names the
/// option that differs.
const Options &agreedOptions(const Program &program, const Options &given, Control &control);

/// One rank's run from the command line's point of view: load, train, evaluate, save, tell.
class Trainer {
public:
  /// `accelerator`: null on the CPU.
  Trainer(const Program &program, const Options &given, Transport &transport, Control &control,
          Accelerator *accelerator);
  /// Returns whether all steps were made: not where a signal asked for an early end.
  bool run();

private:
  void agree();
  Seconds agreeOnZero();
  void planSteps();
  void countSteps();
  void tellBeginning();
  void compareData();
  void beginSaving();
  void train();
  void trainStep();
  void trainSegment();
  void takeReports();
  void advance(int64_t &epoch, int64_t &cursor, int64_t microbatches) const;
  void evaluate();
  std::string keepWeights();
  void save();
  void keepTuning();
  void agreeOnFiles();
  std::string writeTimeline(const std::string &path, const char *begin, const char *separator,
                            const char *end, const std::function<std::string(size_t)> &textOf);
  std::string writeTimelines();
  void nameFiles();
  void summarise();
  void tellTheEnd();
  std::vector<std::string> describeMemory(std::string &json);

  /// Before this rank has made anything: what an empty program holds.
  const MemoryInUse started;
  const Program &program;
  Options options;
  std::string takenOver; ///< options that the checkpoint has told, as they would be written
  TrainingState state;
  Control &control;
  const bool tells; ///< rank 0
  Arena arena;
  Dataset data;
  std::unique_ptr<Dataset> evaluationData;
  std::unique_ptr<Tuning> tuning; ///< null: none is asked for
  Executor executor;
  std::unique_ptr<Progress> progress;
  LearningRate rate;
  int64_t perEpoch = 0, totalSteps = 0, firstStep = 0;
  int64_t told = 0; ///< asynchronous: the last step whose loss was told
  int64_t toldEpoch = 0, toldCursor = 0; ///< where the step behind it begins
  std::map<std::string, int64_t> loaded; ///< fingerprints of the files that were read, by name
  bool stopped = false; ///< by a signal, agreed by all ranks
  int64_t evaluatedAt = -1, savedAt = -1;
  Evaluation evaluated;
  std::string checkpoint;
  std::vector<LossReport> reports; ///< not told yet, the earliest last
  Seconds zero = 0;
};

} // namespace pdc::runtime
