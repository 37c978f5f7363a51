#pragma once

#include "runtime/Arena.h"
#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/LearningRate.h"
#include "runtime/LossScale.h"
#include "runtime/DeviceInputs.h"
#include "runtime/ReplicaSums.h"
#include "runtime/Timeline.h"
#include "runtime/Transport.h"

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdc::runtime {

/// Fills the inputs of a microbatch, which is counted from the start of the run.
class Inputs {
public:
  virtual ~Inputs() = default;
  virtual void fill(const Memory &memory, std::byte *to, int64_t microbatch) = 0;
  /// Of a microbatch among those of all runs.
  virtual int64_t position(int64_t microbatch) const { return microbatch; }
  /// Where a microbatch comes from, for errors: "epoch 0, microbatch 12 (samples 96 to 103)".
  virtual std::string describe(int64_t microbatch) const;
  /// The file and the sample that a kernel refuses. A task that prepares reads no microbatch, -1,
  /// and of the data only what all samples share.
  virtual std::string locate(int64_t microbatch, const DataError &error) const;
};

/// Sums over a minibatch or an evaluation, the same on every rank.
struct Totals {
  double loss = 0, weight = 0, correct = 0;
  double stops = 0;        ///< ranks that were asked to end early
  bool hasClasses = false; ///< the loss is of labels, of which `correct` were predicted
  bool isCutShort = false; ///< an evaluation that was asked to end early: its sums are of no use
  double predictions = 0;  ///< the weight, where classes have no weights of their own
  double meanLoss() const { return weight > 0 ? loss / weight : 0; }
  double accuracy() const { return predictions > 0 ? correct / predictions : 0; }
};

struct ExecutorOptions {
  Seconds timeout = 300;
  double clipNorm = 0;       ///< 0: none
  bool graphs = true;        ///< on a device tasks are recorded once and run again
  bool rendezvous = false;   ///< block until each group of messages is done
  uint64_t delaySeed = 0;    ///< rendezvous: draw a delay before each group
  size_t timelineRoom = 0;   ///< events kept
  bool recordsCalls = false; ///< among them what a library was told to move
  /// Floats that replicas sum at once.
  int64_t bucketElements = int64_t(1) << 20;
  Tuning *tuning = nullptr; ///< where kernels are measured; null: nowhere
};

/// Thrown on all ranks alike: what one of them refused in an evaluation, whose end all have
/// reached.
struct EvaluationError : Error {
  using Error::Error;
};

/// Obeys the rows of one program. Nothing here allocates once a first step has run.
class Executor {
public:
  Executor(const Program &program, const Arena &arena, Transport &transport, Control &control,
           Inputs &inputs, const ExecutorOptions &options);
  ~Executor();

  /// Agrees with the other ranks on what is summed and runs the prepare tasks: after the weights
  /// are loaded, before the first step.
  void start();

  /// The updates that this rank's weights have had before, of which optimizers correct their
  /// averages' bias; and those since then too.
  void goOnAfter(int64_t updates);
  int64_t updatesMade() const { return stages.front().made; }

  /// One update from `microbatches` of them (at most the program's). `goesOn`: the microbatch
  /// behind them is the first of another such run.
  Totals trainSynchronous(int64_t microbatches, int64_t step, const LearningRate &rate,
                          bool goesOn = false);
  /// The updates of `microbatches`, the first of which is of step `firstStep`; ends drained,
  /// earlier when a rank was asked to. Returns how many microbatches it took. `afterUpdate` runs
  /// after each update of this rank.
  int64_t trainAsynchronous(int64_t microbatches, int64_t firstStep, const LearningRate &rate,
                            const std::function<void()> &afterUpdate);
  /// Throws Error where an update has made a weight NaN: before weights are saved or evaluated.
  /// Waits for what is computed.
  void requireWeights() const;
  /// Refuses on all ranks (EvaluationError) what one of them refuses: they can go on to save.
  Totals evaluate(int64_t microbatches, Inputs &evaluationInputs);

  /// Where the newest version of a memory lies.
  std::byte *newest(const Memory &memory) const;
  const Arena &memory() const { return arena; }
  const Timeline &timeline() const { return events; }
  /// The 2-norm of the last step's gradient, where clipping asked for it.
  double gradientNorm() const { return norm; }
  /// Part of what a checkpoint holds; to be set before `start`.
  LossScale lossScale;

private:
  struct Slot {
    int64_t owner = -1; ///< microbatch
    int version = 0;    ///< ring copy that it reads
  };
  struct Stage {
    const StageInfo *info;
    int replica = 0; ///< position in info->ranks
    std::unique_ptr<Tasks> tasks;
    std::vector<Slot> slots, evaluationSlots;
    /// Evaluation finds them at the offsets of training, unless it has entries of its own.
    std::vector<const Memory *> inputs, evaluationInputs;
    int version = 0;     ///< ring copy that is the newest
    int64_t updates = 0; ///< of the run in progress
    int64_t made = 0;    ///< of all runs, with those before a checkpoint
    int64_t ended = 0;   ///< microbatches of it whose weight gradients are made, or being made
    /// By phase: whether its next run is the first since the last update.
    std::array<bool, 7> starts{};
    int *lost = nullptr; ///< Run::lost of its updates
  };
  struct ScaledRate {
    float *here;
    double factor;
  };
  struct Pending {
    int transfer, stage, slot;
    bool send, evaluation;
    int64_t microbatch, group;
    int request;
    Seconds begin;
  };
  /// One side of a message that brings the gradient of a tied weight's use to a stage that holds
  /// the weight too.
  struct Exchange {
    const Memory *memory;
    bool send;
    int peer, tag;
  };

  // Rows.
  void walk(std::span<const Step> rows, int64_t from);
  void postGroup(std::span<const Step> group);
  void postAll(std::span<const Step> group, StepKind kind);
  void runTask(const Step &row, int64_t microbatch);
  void runForward(Stage &stage, int64_t microbatch);
  void fillInput(const Memory &input, std::byte *to, int64_t microbatch);
  /// Whether this run of a phase is the first since the last update; the next one is not.
  bool startsSums(Stage &stage, Phase phase, int64_t microbatch);
  void runBackward(Stage &stage, Phase phase, int64_t microbatch);
  void runEvaluate(Stage &stage, int64_t microbatch);
  void evaluateOn(Stage &stage, int64_t microbatch, int slot);
  void agreeOnRefusal();
  void runKernels(Stage &stage, Phase phase, const Run &run);
  /// What a task has made for other stages of this rank.
  void handOver(const Stage &stage, Phase phase, int64_t microbatch, int slot);
  void runUpdate(Stage &stage, int64_t microbatch);
  void runPrepare(Stage &stage);
  int64_t outsideRepeat() const;
  int64_t iterationsUntilEnd(int64_t iteration, int64_t planned);
  // The update rule.
  int64_t microbatchesPerUpdate(const Stage &stage) const;
  int64_t stepsPerUpdate(const Stage &stage) const;
  /// The microbatches of this run, of all replicas, in the update up to `last`.
  int64_t summed(const Stage &stage, int64_t last) const;
  void reportLoss(const Stage &stage, int64_t last);
  /// The step of an asynchronous update behind microbatch `last` of its stage.
  int64_t stepOf(const Stage &stage, int64_t last) const;
  /// The last microbatch of all replicas in the update that takes this one.
  int64_t lastOfUpdate(const Stage &stage, int64_t microbatch) const;
  /// Whether this replica has no later microbatch in the same update, and its sum may begin.
  bool endsSums(const Stage &stage, int64_t microbatch) const;
  /// Whether that sum may begin within the task, before the row that waits for it. A library that
  /// starts all messages of an accelerator in the order of the calls would hold up those between,
  /// which other replicas may need to get that far: the proof has them all at their rows.
  bool maySumEarly(const Stage &stage) const;
  /// Whether a group of microbatches of all replicas, up to `last`, has begun in this run.
  bool hasBegun(const Stage &stage, int64_t last) const;
  /// `isOfRate`: weights that have been updated may be the reason.
  std::string remedy(int64_t number, bool isOfRate = true) const;
  std::string describeWeights(const char *since) const;
  template <class Task> void runOnData(int64_t microbatch, Task task);
  void requireFiniteLoss(const Stage &stage, int64_t microbatch) const;
  void requireFiniteSum(double sum, int64_t number, int64_t first, int64_t last) const;
  void requireFiniteNorm() const;
  void requireWeights(const Stage &stage, int64_t number) const;
  void beginRun(int64_t microbatches);
  void finishTransfers();

  // Addresses.
  Stage &stageOf(int id);
  int takeSlot(Stage &stage, int64_t microbatch, bool evaluation,
               const Transfer *incoming = nullptr);
  Run runOf(const Stage &stage, int slot, bool evaluation) const;
  int versionRead(const Stage &stage, int64_t microbatch) const;
  std::byte *version(const Stage &stage, int copy) const;
  float *scalar(const char *name) const;

  // Waiting.
  template <class Which> void waitFor(Which which);
  void complete(size_t index);
  void noteIssue(const Issue &issue);
  void poll();
  Activity activityOf(const Pending &pending) const;

  // Sums over the replicas of a stage.
  void reduceGradients(Stage &stage, int64_t last);
  int participants(const Stage &stage, int64_t last) const;

  // Sums over ranks.
  void reduceTraining();
  void exchangeGradients();
  void agreeOnLossScale();
  void endScaledStep(bool hasOverflow);
  double lossFactor() const { return scalesLoss ? lossScale.factor() : 1; }
  double clipFactor();
  void agreeOnGradients();

  void findLearningRates();

  const Program &program;
  const Arena &arena;
  Transport &transport;
  Control &control;
  Inputs *inputs;
  DeviceInputs deviceInputs;
  const ExecutorOptions options;
  std::vector<Stage> stages;
  std::vector<Pending> pending;
  std::vector<Message> group;
  /// By weight, of all ranks: those of its uses, none where another rank speaks.
  std::vector<AddedTensors> ownGradients;
  std::vector<Exchange> exchanges;
  std::vector<double> squaresByName;
  std::vector<std::string> weightNames;          ///< whose gradients these are
  std::vector<std::span<const float>> gradients; ///< of this rank, where the loss is scaled
  std::vector<Message> exchangeMessages;
  ReplicaSums replicaSums;
  float *loss, *lossWeight, *stepNumber, *gradientScale, *lossScaleHere; ///< null: not here
  std::vector<ScaledRate> learningRates;                                 ///< that updates read
  bool scalesLoss = false; ///< some rank does
  Timeline events;

  // The run in progress.
  std::span<const Step> rowsAhead; ///< of the walk, behind the task that runs
  int64_t firstMicrobatch = 0;     ///< of the walk: added to those of its rows
  int64_t step = 0, limit = 0, groups = 0;
  bool reduced = false;
  bool readsAhead = false; ///< the first inputs of the next one
  Totals totals;
  std::string refusal;    ///< of an evaluation: its stage and why; empty: none here
  bool leavesOut = false; ///< of an evaluation: some of its microbatches
  double norm = 0;
  const LearningRate *rate = nullptr;
  const std::function<void()> *afterUpdate = nullptr;
};

/// Runs a task that reads the data of a microbatch.
template <class Task> void Executor::runOnData(int64_t microbatch, Task task) {
  try {
    task();
  } catch (const DataError &error) {
    throw Error(inputs->locate(microbatch, error), " (", inputs->describe(microbatch), ")");
  }
}

/// Completes every posted transfer that `which` takes.
template <class Which> void Executor::waitFor(Which which) {
  for (size_t i = 0; i < pending.size();)
    if (pending[i].request >= 0 && which(pending[i]))
      complete(i);
    else
      ++i;
}

} // namespace pdc::runtime
