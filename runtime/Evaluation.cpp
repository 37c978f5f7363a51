#include "runtime/Error.h"
#include "runtime/Trainer.h"

#include <algorithm>
#include <charconv>
#include <utility>

/// Evaluations, which all ranks end together, also where one of them cannot go on: no message is
/// left without its receiver, and what was trained can be saved.
namespace pdc::runtime {

Totals Executor::evaluate(int64_t microbatches, Inputs &evaluationInputs) {
  beginRun(microbatches);
  refusal.clear();
  leavesOut = false;
  Inputs *training = std::exchange(inputs, &evaluationInputs);
  int64_t begun = 0;
  for (; begun < microbatches && control.beginsRound(); begun += program.evaluation.period)
    walk(program.evaluation.repeat, begun);
  leavesOut = leavesOut || begun < microbatches;
  finishTransfers();
  inputs = training;
  agreeOnRefusal();
  std::array<const float *, 4> sumsHere = {
      scalar("pdc.evaluation_loss"), scalar("pdc.evaluation_loss_weight"),
      scalar("pdc.evaluation_correct"), scalar("pdc.evaluation_predictions")};
  // A replica without a microbatch has sums of an earlier run.
  if (std::ranges::all_of(stages,
                          [](const Stage &stage) { return stage.starts[size_t(Phase::evaluate)]; }))
    sumsHere = {};
  const auto [lossHere, weight, correct, predictions] = arena.load(sumsHere);
  double sums[7] = {lossHere,
                    weight,
                    correct,
                    stopSignal ? 1.0 : 0.0,
                    scalar("pdc.evaluation_correct") ? 1.0 : 0.0,
                    leavesOut ? 1.0 : 0.0,
                    sumsHere[3] ? predictions : weight};
  control.setActivity({"sums the evaluation with all ranks"});
  control.sum(sums);
  return {sums[0], sums[1], sums[2], sums[3], sums[4] > 0, sums[5] > 0, sums[6]};
}

/// A rank that refuses its data, or whose rounds come to an early end, computes nothing more; what
/// others send it it takes, and sends them what they wait for.
void Executor::runEvaluate(Stage &stage, int64_t microbatch) {
  int slot = takeSlot(stage, microbatch, true);
  waitFor([&](const Pending &p) {
    return !p.send && p.stage == stage.info->id && p.microbatch == microbatch && p.evaluation;
  });
  leavesOut = leavesOut || !refusal.empty() || control.endsRounds();
  if (leavesOut)
    return;
  try {
    evaluateOn(stage, microbatch, slot);
  } catch (const Error &error) {
    if (control.failed())
      throw;
    refusal = std::to_string(stage.info->id) + " " + error.what();
    control.requestStop();
  }
}

void Executor::evaluateOn(Stage &stage, int64_t microbatch, int slot) {
  std::byte *base = arena.region(stage.info->evaluationRegion, slot);
  for (const Memory *input : stage.evaluationInputs)
    fillInput(*input, base + input->place.offset, microbatch);
  Run run = runOf(stage, slot, true);
  run.startsSums = std::exchange(stage.starts[size_t(Phase::evaluate)], false);
  Seconds begin = now();
  runOnData(microbatch, [&] { runKernels(stage, Phase::evaluate, run); });
  handOver(stage, Phase::evaluate, microbatch, slot);
  events.add({Timeline::Kind::run, Phase::evaluate, stage.info->id, step, microbatch, -1, 0, begin,
              now()});
}

/// The first stage's, for those behind it may have refused what it did not compute.
void Executor::agreeOnRefusal() {
  control.setActivity({"ends the evaluation with all ranks"});
  std::vector<std::string> all;
  control.gather(refusal, all);
  int first = 0;
  std::string why;
  for (const std::string &told : all) {
    int stage = 0;
    const char *end = told.data() + told.size();
    const char *text = std::from_chars(told.data(), end, stage).ptr;
    if (text != end && (why.empty() || stage < first)) {
      first = stage;
      why.assign(text + 1, end);
    }
  }
  if (!why.empty())
    throw EvaluationError(why);
}

void Trainer::evaluate() {
  executor.requireWeights();
  Seconds begin = now();
  evaluationData->startAt(0, state.step);
  evaluationData->seed = state.seed;
  Totals totals;
  try {
    totals = executor.evaluate(evaluationData->microbatches(), *evaluationData);
  } catch (const EvaluationError &error) {
    throw Error("evaluation after step ", state.step, ": ", error.what(), "; ", keepWeights());
  }
  stopped = totals.isCutShort || (totals.stops > 0 && state.step < totalSteps);
  if (totals.isCutShort) {
    if (progress)
      progress->line("evaluation after step " + std::to_string(state.step) + ": was asked to end");
    return;
  }
  evaluated = {totals, options.metric,
               evaluationData->samples() - std::max<int64_t>(evaluationData->remainder(), 0)};
  evaluatedAt = state.step;
  if (!tells)
    return;
  std::string text = "evaluation after step " + std::to_string(state.step) + ": ";
  std::string json = "{\"step\": " + std::to_string(state.step) +
                     ", \"evaluation_loss\": " + jsonNumber(evaluated.totals.meanLoss());
  if (const std::string metric = evaluated.text(false); !metric.empty())
    text += metric + ", ";
  progress->line(text + "loss " + std::to_string(evaluated.totals.meanLoss()));
  progress->log(json + evaluated.json() + ", \"seconds\": " + fixed(now() - begin, 6) + "}");
  progress->resume();
}

/// Where the run cannot go on, of all ranks; returns what became of the weights.
std::string Trainer::keepWeights() {
  if (options.save.empty())
    return "nothing was saved, for there was no --save";
  try {
    if (savedAt != state.step)
      save();
  } catch (const Error &error) {
    return std::string("nor could the weights be saved: ") + error.what();
  }
  return "what was trained is saved: go on with --resume " + checkpoint;
}

} // namespace pdc::runtime
