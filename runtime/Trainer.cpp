#include "runtime/Trainer.h"

#include "runtime/CheckpointFolder.h"
#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"
#include "runtime/ReplacedFile.h"
#include "runtime/SharedFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

namespace pdc::runtime {

static std::vector<DataSpec> specs(const std::vector<std::string> &texts) {
  std::vector<DataSpec> result;
  for (const std::string &text : texts)
    result.push_back(parseDataSpec(text));
  return result;
}

static std::unique_ptr<Tuning> makeTuning(const Options &options, Accelerator *accelerator,
                                          int rank) {
  if (options.tune.empty() || !accelerator)
    return nullptr;
  auto clock = [accelerator](const std::function<void()> &work) {
    return accelerator->secondsOf(work);
  };
  return std::make_unique<Tuning>(accelerator->name(), clock, options.tune, rank);
}

static ExecutorOptions executorOptions(const Options &options, Tuning *tuning) {
  ExecutorOptions result;
  result.tuning = tuning;
  result.timeout = options.timeout > 0 ? options.timeout : 300;
  result.clipNorm = options.clipNorm;
  result.rendezvous = options.rendezvous;
  result.graphs = !options.noGraphs;
  result.delaySeed = options.delaySeed;
  result.timelineRoom = options.trace.empty() && options.record.empty() ? 0 : size_t(1) << 20;
  result.recordsCalls = !options.record.empty();
  return result;
}

/// Where a run begins. One that goes on is told options by its checkpoint, which `takenOver` shows.
static TrainingState beginningOf(const Program &program, Options &options, std::string &takenOver) {
  TrainingState state;
  state.seed = options.seed.value_or(0);
  if (options.resume.empty())
    return state;
  options.resume = newestCheckpoint(options.resume);
  state = readState(program, options.resume);
  try {
    takenOver = takeOver(options, state.options);
  } catch (const Error &error) {
    throw Error(options.resume, "/state.json: its options are not taken over: ", error.what());
  }
  return state;
}

Trainer::Trainer(const Program &program, const Options &given, Transport &transport,
                 Control &control, Accelerator *accelerator)
    : started(memoryInUse()), program(program), options(agreedOptions(program, given, control)),
      state(beginningOf(program, options, takenOver)), control(control), tells(program.rank == 0),
      arena(program, accelerator), data(program, specs(options.data), false, control),
      tuning(makeTuning(options, accelerator, program.rank)),
      executor(program, arena, transport, control, data, executorOptions(options, tuning.get())) {
  if (!options.evaluationData.empty())
    evaluationData =
        std::make_unique<Dataset>(program, specs(options.evaluationData), true, control);
  const bool isTakenOver = !given.decisive.contains("--clip-norm");
  if (program.asynchronous && options.clipNorm > 0)
    throw Error("--clip-norm ", options.clipNorm,
                isTakenOver ? ", which the checkpoint tells," : "",
                " needs a common step of all ranks, which schedule ", program.schedule,
                " does not have; use a synchronous schedule",
                isTakenOver ? ", or leave it out by --clip-norm 0" : "");
  if (options.metric == "perplexity" && data.hasNoClasses())
    throw Error("--metric perplexity: is of predicted classes, and the program's loss (mse, l1 or "
                "bce_with_logits) has none; leave it out");
}

/// When the timelines of all ranks begin: on the host of rank 0 the very moment, so that what one
/// rank does before another stands before it; on others, whose clocks count from their own boot,
/// when this rank heard of it.
Seconds Trainer::agreeOnZero() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::ostringstream mine;
  mine << std::hexfloat << now() << ' ' << boot;
  std::vector<std::string> all;
  control.gather(mine.str(), all);
  size_t space = all.front().find(' ');
  bool sameClock = !boot.empty() && all.front().substr(space + 1) == boot;
  return sameClock ? std::strtod(all.front().c_str(), nullptr) : now();
}

/// What pdc wrote beside the program; one of that name elsewhere, as in the current folder, is not
/// the program's.
static std::string fileOfProgram(const Program &program, Initial initial, const char *name) {
  std::string path = findBeside(name);
  if (path.empty() && std::ranges::count(program.memories, initial, &Memory::initial) > 0) {
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    throw Error((self.parent_path() / name).string(),
                ": is not there, nor in the folder above, "
                "where pdc wrote it with the program; run pdc again",
                initial == Initial::file ? ", or give --weights FILE" : "");
  }
  return path;
}

bool Trainer::run() {
  std::optional<SavingLock> lock;
  if (program.rank == 0 && !options.save.empty())
    lock.emplace(options.save);
  // 1. Weights, then the state of an earlier run over them.
  const std::string weights = options.weights.empty()
                                  ? fileOfProgram(program, Initial::file, "weights.safetensors")
                                  : options.weights;
  // A program that reads none may be told of any.
  if (std::error_code ignored; std::filesystem::exists(weights, ignored))
    loaded["weights"] = fingerprintOf(weights);
  loadInitial(program, executor, weights,
              fileOfProgram(program, Initial::constants, "constants.safetensors"));
  data.loadShared(executor);
  if (!options.resume.empty()) {
    loadTensors(program, executor, options.resume, state, loaded);
    executor.goOnAfter(state.updates);
    if (options.seed.value_or(state.seed) != state.seed)
      throw Error("--seed ", *options.seed, ": the checkpoint was made with seed ", state.seed,
                  "; leave --seed out");
  }
  executor.lossScale = state.lossScale;
  arena.populate();
  planSteps();
  agree();
  beginSaving();
  executor.start();
  control.timeout = options.timeout > 0 ? options.timeout : 300;
  control.running = true;
  zero = agreeOnZero();
  // 2. Train.
  if (progress)
    progress->resume();
  train();
  // 3. The end: what has not been done at the last step. What evaluation refuses loses no weights.
  if (!options.save.empty() && savedAt != state.step)
    save();
  if (evaluationData && evaluatedAt != state.step && !stopped)
    evaluate();
  keepTuning();
  summarise();
  const std::string unwritten = writeTimelines();
  nameFiles();
  if (!unwritten.empty())
    throw Error(unwritten, "; all else is done");
  tellTheEnd();
  control.setActivity({"ends"});
  control.finish();
  if (progress)
    progress->finish();
  return !stopped;
}

void Trainer::train() {
  while (state.step < totalSteps && !stopped) {
    program.asynchronous ? trainSegment() : trainStep();
    if (options.saveEvery > 0 && !options.save.empty() && state.step % options.saveEvery == 0)
      save();
    if (state.cursor == 0 && evaluationData && state.step < totalSteps && !stopped)
      evaluate();
  }
  executor.requireWeights();
}

void Trainer::trainStep() {
  int64_t count = std::min(program.microbatches, perEpoch - state.cursor);
  int64_t number = state.step + 1;
  data.startAt(state.epoch * perEpoch + state.cursor, number);
  Totals totals = executor.trainSynchronous(count, number, rate, number < totalSteps);
  keepTuning();
  if (progress)
    progress->step(number, state.epoch, totals.meanLoss(), count * program.microbatchSize,
                   rate.at(number), executor.gradientNorm());
  if (progress && executor.lossScale.overflowed)
    progress->leftOut(number, executor.lossScale.halved, executor.lossScale.value);
  state.step = number;
  advance(state.epoch, state.cursor, count);
  stopped = totals.stops > 0 && state.step < totalSteps;
}

/// `epoch` and `cursor` are where so many microbatches begin; afterwards, where they end.
void Trainer::advance(int64_t &epoch, int64_t &cursor, int64_t microbatches) const {
  const int64_t stream = epoch * perEpoch + cursor + microbatches;
  epoch = stream / perEpoch;
  cursor = stream % perEpoch;
}

/// Asynchronous: as many microbatches as lie before the next drain. An epoch that is not whole
/// updates ends drained, with a smaller update.
void Trainer::trainSegment() {
  int64_t steps = totalSteps - state.step, size = program.microbatches;
  if (options.saveEvery > 0 && !options.save.empty())
    steps = std::min(steps, options.saveEvery - state.step % options.saveEvery);
  int64_t count = steps * size;
  if (evaluationData || perEpoch % size != 0 || state.cursor % size != 0)
    count = std::min(count, perEpoch - state.cursor);
  data.startAt(state.epoch * perEpoch + state.cursor, state.step + 1);
  count = executor.trainAsynchronous(count, state.step + 1, rate, [this] {
    keepTuning();
    takeReports();
  });
  // Every report has come when every rank has.
  double stops[1] = {stopSignal ? 1.0 : 0.0};
  control.setActivity({"waits until all ranks have drained"});
  control.sum(stops);
  takeReports();
  state.step += (count + size - 1) / size;
  advance(state.epoch, state.cursor, count);
  stopped = (stops[0] > 0 || control.lastStep() == state.step) && state.step < totalSteps;
}

/// Replicas report in any order; the steps are told in theirs, once all parts have come.
void Trainer::takeReports() {
  if (!tells)
    return;
  control.takeReports(reports);
  std::ranges::sort(reports, std::greater{},
                    [](const LossReport &report) { return std::pair(report.step, report.part); });
  while (!reports.empty() && reports.back().step == told + 1) {
    size_t parts = size_t(reports.back().parts);
    if (reports.size() < parts || reports[reports.size() - parts].step != told + 1)
      return;
    double loss = 0, weight = 0;
    for (; parts > 0; --parts, reports.pop_back()) {
      loss += reports.back().loss;
      weight += reports.back().weight;
    }
    const int64_t count = std::min(program.microbatches, perEpoch - toldCursor);
    ++told;
    progress->step(told, toldEpoch, weight > 0 ? loss / weight : 0, count * program.microbatchSize,
                   rate.at(told), 0);
    advance(toldEpoch, toldCursor, count);
  }
}

void Trainer::save() {
  executor.requireWeights();
  control.setActivity({"writes a checkpoint"});
  state.lossScale = executor.lossScale;
  state.updates = executor.updatesMade();
  state.options = options.decisive;
  state.samples = data.samples();
  state.dataFiles = data.files();
  checkpoint = saveCheckpoint(program, executor, control, options.save, state);
  savedAt = state.step;
  if (progress) {
    progress->line("saved " + checkpoint);
    progress->resume();
  }
}

void Trainer::keepTuning() {
  if (tuning)
    tuning->keep();
}

/// The parts of all ranks, rank by rank. `textOf` makes one of this rank's. Returns why the file
/// could not be written; "" where it could.
std::string Trainer::writeTimeline(const std::string &path, const char *begin,
                                   const char *separator, const char *end,
                                   const std::function<std::string(size_t)> &textOf) {
  if (path.empty())
    return "";
  std::optional<ReplacedFile> file;
  int reason = 0;
  auto write = [&](const std::string &text) {
    errno = 0;
    if (!(file->text() << text) && reason == 0)
      reason = errno;
  };
  if (tells)
    file.emplace(path), write(begin);
  std::vector<std::string> counts, all;
  control.gather(std::to_string(executor.timeline().parts()), counts);
  bool first = true;
  for (int rank = 0; rank < program.ranks; ++rank)
    for (size_t part = 0; part < std::stoull(counts[rank]); ++part) {
      control.collect(rank == program.rank ? textOf(part) : "", all);
      if (!tells)
        continue;
      write((first || all[rank].empty() ? "" : separator) + all[rank]);
      first = first && all[rank].empty();
    }
  if (!tells)
    return "";
  write(end);
  errno = 0;
  if (file->takePlace())
    return "";
  reason = reason ? reason : errno;
  return path + ": cannot be written" + (reason ? std::string(": ") + std::strerror(reason) : "");
}

std::string Trainer::writeTimelines() {
  control.setActivity({"writes what it has recorded"});
  const Timeline &timeline = executor.timeline();
  const std::string trace =
      writeTimeline(options.trace, "{\"traceEvents\": [\n", ",\n", "\n]}\n",
                    [&](size_t part) { return timeline.chromeEvents(program, zero, part); });
  const std::string record = writeTimeline(
      options.record, "", "", "", [&](size_t part) { return timeline.issuedLines(program, part); });
  bool kept = !options.trace.empty() || !options.record.empty();
  if (progress && kept && timeline.leftOut() > 0)
    progress->line("the trace leaves out the last " + grouped(timeline.leftOut()) + " events");
  return trace + (trace.empty() || record.empty() ? "" : "; ") + record;
}

} // namespace pdc::runtime
