#include "runtime/CheckpointFolder.h"
#include "runtime/Error.h"
#include "runtime/Trainer.h"

#include <algorithm>
#include <limits>

/// How far a run goes, and what it says before its first step.
namespace pdc::runtime {

void Trainer::planSteps() {
  data.seed = state.seed;
  data.shuffle = options.order == "shuffled";
  perEpoch = data.microbatches();
  if (perEpoch == 0)
    perEpoch = program.microbatches; // a model without data inputs
  if (state.epoch > kMostCounted / perEpoch)
    throw Error("--resume: the checkpoint stands in epoch ", state.epoch, " of ", perEpoch,
                " microbatches each, expected at most ", kMostCounted,
                " microbatches in all; resume from another checkpoint");
  if (state.cursor >= perEpoch)
    throw Error("--resume: the checkpoint stands at microbatch ", state.cursor,
                " of an epoch and the data has ", perEpoch, "; give the data it was made with");
  countSteps();
  firstStep = told = state.step;
  toldEpoch = state.epoch, toldCursor = state.cursor;
  rate = LearningRate(options.learningRate.value_or(program.learningRate), options.schedule,
                      totalSteps);
  if (tells)
    tellBeginning();
}

void Trainer::countSteps() {
  const int64_t size = program.microbatches;
  auto stepsOf = [size](int64_t microbatches) { return (microbatches + size - 1) / size; };
  // A checkpoint may be of another number of microbatches per step: what is left of its epoch
  // counts.
  const int64_t epochsLeft = std::max<int64_t>(options.epochs, 1) - state.epoch;
  totalSteps = state.step;
  bool isTooMany = epochsLeft > 0 &&
                   (__builtin_mul_overflow(epochsLeft - 1, stepsOf(perEpoch), &totalSteps) ||
                    __builtin_add_overflow(
                        totalSteps, state.step + stepsOf(perEpoch - state.cursor), &totalSteps));
  if (options.steps > 0) {
    totalSteps = options.steps;
    isTooMany = false;
  }
  // Room for the microbatches of a checkpoint before them.
  if (isTooMany || totalSteps > std::numeric_limits<int64_t>::max() / 2 / size)
    throw Error(options.steps > 0 ? "--steps " : "--epochs ",
                options.steps > 0 ? options.steps : options.epochs, ": makes more ",
                isTooMany ? "steps" : "microbatches", " than can be counted; give fewer");
}

void Trainer::tellBeginning() {
  progress = std::make_unique<Progress>(options.progress, options.log, !options.resume.empty(),
                                        state.step, totalSteps);
  if (!options.resume.empty())
    progress->line("resumed at step " + std::to_string(state.step) +
                   (takenOver.empty() ? "" : ", as before with " + takenOver));
  compareData();
  if (state.step >= totalSteps)
    progress->line("nothing is left to train: the checkpoint stands at step " +
                   std::to_string(state.step) + " and the run ends at step " +
                   std::to_string(totalSteps) + "; ask for more --steps or --epochs to go on");
  if (data.remainder() > 0 && data.samples() > 0)
    progress->line(grouped(data.remainder()) + " of " + grouped(data.samples()) +
                   " samples do not fill a microbatch of " +
                   std::to_string(program.microbatchSize) + ": each epoch leaves so many out");
  if (evaluationData && evaluationData->remainder() > 0)
    progress->line("evaluation leaves out " + grouped(evaluationData->remainder()) +
                   (evaluationData->remainder() == 1 ? " sample" : " samples"));
}

/// Training goes on with other data, too, but not as if nothing had happened.
void Trainer::compareData() {
  if (state.samples > 0 && state.samples != data.samples())
    return progress->line("these are other data: the checkpoint was trained with " +
                          grouped(state.samples) + " samples, and here are " +
                          grouped(data.samples()));
  for (const auto &[input, fingerprint] : state.dataFiles)
    if (auto here = data.files().find(input);
        here != data.files().end() && here->second != fingerprint)
      progress->line("these are other data: the file of input '" + input +
                     "' is not the one that the checkpoint was trained with");
}

void Trainer::beginSaving() {
  if (!tells || options.save.empty())
    return;
  if (const std::string beyond = checkpointBeyond(options.save, state.step); !beyond.empty())
    progress->line(options.save + " holds checkpoints that this run does not go on from, up to " +
                   beyond + ": they stay, and --resume " + options.save +
                   " takes those of this run");
  state.run = runtime::beginSaving(options.save, options.resume);
}

} // namespace pdc::runtime
