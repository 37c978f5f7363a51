#include "runtime/Executor.h"

#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace pdc::runtime {

constexpr size_t kOpenTransfers = 2048;

Executor::Executor(const Program &program, const Arena &arena, Transport &transport,
                   Control &control, Inputs &inputs, const ExecutorOptions &options)
    : program(program), arena(arena), transport(transport), control(control), inputs(&inputs),
      deviceInputs(program, arena), options(options),
      replicaSums(program, arena, transport, control, options.timeout, options.bucketElements),
      events(options.timelineRoom) {
  for (const StageInfo &info : program.stages) {
    Stage &stage = stages.emplace_back();
    stage.info = &info;
    stage.replica = int(std::ranges::find(info.ranks, program.rank) - info.ranks.begin());
    stage.tasks.reset(program.createTasks(
        info.id, {program.threads, program.workspaceBytes, program.exact, options.tuning}));
    stage.lost = arena.makeFlag();
    stage.slots.resize(program.regions[info.slotRegion].copies);
    if (info.evaluationRegion >= 0)
      stage.evaluationSlots.resize(program.regions[info.evaluationRegion].copies);
    for (const Memory &memory : program.memories) {
      if (memory.role != Role::input)
        continue;
      if (memory.place.region == info.slotRegion)
        stage.inputs.push_back(&memory);
      if (memory.place.region == info.evaluationRegion)
        stage.evaluationInputs.push_back(&memory);
    }
    if (stage.evaluationInputs.empty())
      stage.evaluationInputs = stage.inputs;
  }
  pending.reserve(kOpenTransfers);
  group.reserve(kOpenTransfers);
  loss = scalar("pdc.loss");
  lossWeight = scalar("pdc.loss_weight");
  findLearningRates();
  stepNumber = scalar("pdc.step");
  gradientScale = scalar("pdc.gradient_scale");
  lossScaleHere = scalar("pdc.loss_scale");
  control.whileWaiting([&transport] { transport.progress(); });
  if (options.recordsCalls)
    transport.whenIssued([this](const Issue &issue) { noteIssue(issue); });
}

Executor::~Executor() {
  control.whileWaiting({});
  transport.whenIssued({});
  replicaSums.stop();
  transport.cancel();
}

void Executor::start() {
  agreeOnGradients();
  agreeOnLossScale();
  for (Stage &stage : stages)
    runPrepare(stage);
}

Totals Executor::trainSynchronous(int64_t microbatches, int64_t number, const LearningRate &rule,
                                  bool goesOn) {
  beginRun(microbatches);
  readsAhead = goesOn;
  step = number;
  rate = &rule;
  walk(program.training.step, 0);
  if (!reduced)
    reduceTraining();
  finishTransfers();
  return totals;
}

/// Rows of microbatches behind the last one are left out, so that any number of them ends drained:
///
///     warm-up  repeat  repeat  drain
///     F0 F1    F2 B0   F3 B1   B2 B3      4 microbatches
///     F0 F1    F2 B0   -- B1   B2 --      3
int64_t Executor::trainAsynchronous(int64_t microbatches, int64_t firstStep,
                                    const LearningRate &rule,
                                    const std::function<void()> &onUpdate) {
  beginRun(microbatches);
  step = firstStep;
  rate = &rule;
  afterUpdate = &onUpdate;
  int64_t period = program.training.period;
  int64_t planned = std::max<int64_t>(0, (microbatches - outsideRepeat() + period - 1) / period);
  walk(program.training.warmUp, 0);
  int64_t i = 0;
  for (; i < iterationsUntilEnd(i, planned); ++i)
    walk(program.training.repeat, i * period);
  walk(program.training.drain, i * period);
  finishTransfers();
  afterUpdate = nullptr;
  return limit;
}

void Executor::beginRun(int64_t microbatches) {
  limit = microbatches;
  reduced = false;
  for (Stage &stage : stages) {
    stage.updates = stage.ended = 0;
    stage.starts.fill(true);
    std::fill(stage.slots.begin(), stage.slots.end(), Slot{});
    std::fill(stage.evaluationSlots.begin(), stage.evaluationSlots.end(), Slot{});
  }
}

// Rows.

void Executor::walk(std::span<const Step> rows, int64_t from) {
  firstMicrobatch = from;
  auto transfers = [&](size_t i) {
    return rows[i].kind == StepKind::send || rows[i].kind == StepKind::receive;
  };
  for (size_t i = 0; i < rows.size();) {
    size_t end = i + 1;
    rowsAhead = rows.subspan(end);
    if (transfers(i)) {
      while (end < rows.size() && transfers(end))
        ++end;
      postGroup(rows.subspan(i, end - i));
    } else if (rows[i].kind == StepKind::allReduce) {
      if (!reduced)
        reduceTraining();
    } else if (rows[i].kind == StepKind::reduceGradients) {
      reduceGradients(stageOf(rows[i].stage), rows[i].microbatch + firstMicrobatch);
    } else
      runTask(rows[i], rows[i].microbatch + firstMicrobatch);
    i = end;
  }
}

/// Sends first: a receive into a slot that a send of the same group leaves may have to wait for it.
void Executor::postGroup(std::span<const Step> rows) {
  if (pending.size() + rows.size() > kOpenTransfers)
    finishTransfers();
  if (options.rendezvous && options.delaySeed) {
    uint64_t drawn = (options.delaySeed + groups * 1000003 + program.rank) * 0x9E3779B97F4A7C15;
    std::this_thread::sleep_for(std::chrono::microseconds((drawn >> 40) % 300));
  }
  transport.beginGroup();
  postAll(rows, StepKind::send);
  postAll(rows, StepKind::receive);
  transport.endGroup();
  ++groups;
  if (options.rendezvous)
    finishTransfers();
}

void Executor::postAll(std::span<const Step> rows, StepKind kind) {
  bool send = kind == StepKind::send;
  group.clear();
  for (const Step &row : rows) {
    int64_t microbatch = row.microbatch + firstMicrobatch;
    if (row.kind != kind || microbatch >= limit)
      continue;
    const Transfer &edge = program.transfers[row.transfer];
    bool evaluation = edge.phase == Phase::evaluate;
    int slot = takeSlot(stageOf(edge.stage), microbatch, evaluation, &edge);
    Seconds begin = now();
    group.push_back(
        {send, peerOf(edge, microbatch), edge.tag, arena.at(edge.place, slot), edge.bytes});
    pending.push_back(
        {row.transfer, edge.stage, slot, send, evaluation, microbatch, groups, -1, begin});
    events.add({send ? Timeline::Kind::sendPosted : Timeline::Kind::receivePosted, edge.phase,
                edge.stage, step, microbatch, row.transfer, groups, begin, begin});
  }
  if (group.empty())
    return;
  transport.post(group);
  // Taking a slot may have completed older transfers: these are the tail of the list.
  for (size_t i = 0; i < group.size(); ++i)
    pending[pending.size() - group.size() + i].request = group[i].request;
}

void Executor::runTask(const Step &row, int64_t microbatch) {
  Stage &stage = stageOf(row.stage);
  bool comes = row.phase == Phase::update ? hasBegun(stage, microbatch) : microbatch < limit;
  if (row.phase == Phase::prepare || !comes)
    return;
  poll();
  control.check();
  control.setActivity({"computes", "", -1, row.stage, row.phase, step, microbatch});
  switch (row.phase) {
  case Phase::forward:
    return runForward(stage, microbatch);
  case Phase::backward:
  case Phase::backwardInput:
  case Phase::backwardWeight:
    return runBackward(stage, row.phase, microbatch);
  case Phase::evaluate:
    return runEvaluate(stage, microbatch);
  case Phase::update:
    return runUpdate(stage, microbatch);
  default:
    throw Error("stage ", row.stage, ": this runtime does not run tasks of phase ",
                letter(row.phase), "; build it and the stage sources anew");
  }
}

void Executor::runForward(Stage &stage, int64_t microbatch) {
  int slot = takeSlot(stage, microbatch, false);
  waitFor([&](const Pending &p) {
    return !p.send && p.stage == stage.info->id && p.microbatch == microbatch && !p.evaluation &&
           program.transfers[p.transfer].phase == Phase::forward;
  });
  for (const Memory *input : stage.inputs)
    fillInput(*input, arena.at(input->place, slot), microbatch);
  stage.slots[slot].version = versionRead(stage, microbatch);
  Run run = runOf(stage, slot, false);
  run.startsSums = startsSums(stage, Phase::forward, microbatch);
  Seconds begin = now();
  runOnData(microbatch, [&] { runKernels(stage, Phase::forward, run); });
  requireFiniteLoss(stage, microbatch);
  handOver(stage, Phase::forward, microbatch, slot);
  events.add(
      {Timeline::Kind::run, Phase::forward, stage.info->id, step, microbatch, -1, 0, begin, now()});
}

void Executor::fillInput(const Memory &input, std::byte *to, int64_t microbatch) {
  if (!deviceInputs.put(*inputs, input, microbatch, to))
    arena.put(to, input.bytes, [&](std::byte *at) { inputs->fill(input, at, microbatch); });
}

void Executor::runBackward(Stage &stage, Phase phase, int64_t microbatch) {
  int slot = takeSlot(stage, microbatch, false);
  waitFor([&](const Pending &p) {
    return !p.send && p.stage == stage.info->id && p.microbatch == microbatch && !p.evaluation;
  });
  Run run = runOf(stage, slot, false);
  run.startsSums = startsSums(stage, phase, microbatch);
  stage.ended += phase != Phase::backwardInput;
  if (phase != Phase::backwardInput && endsSums(stage, microbatch)) {
    replicaSums.begin(stage.info->id, participants(stage, lastOfUpdate(stage, microbatch)));
    run.sums = maySumEarly(stage) ? &replicaSums : nullptr;
  }
  Seconds begin = now();
  runKernels(stage, phase, run);
  handOver(stage, phase, microbatch, slot);
  events.add({Timeline::Kind::run, phase, stage.info->id, step, microbatch, -1, 0, begin, now()});
  if (phase != Phase::backwardInput)
    stage.slots[slot].version = -1;
}

void Executor::handOver(const Stage &stage, Phase phase, int64_t microbatch, int slot) {
  for (const Move &move : program.moves)
    if (move.fromStage == stage.info->id && move.phase == phase) {
      int taken = takeSlot(stageOf(move.toStage), microbatch, phase == Phase::evaluate);
      arena.move(arena.at(move.to, taken), arena.at(move.from, slot), move.bytes);
    }
}

void Executor::runUpdate(Stage &stage, int64_t microbatch) {
  // 1. What an update reads.
  int64_t number = stepOf(stage, microbatch);
  if (!program.asynchronous && !reduced)
    reduceTraining();
  for (const auto &[here, factor] : learningRates)
    arena.store(here, float(rate->at(number) * factor));
  // Fewer than the steps where an asynchronous stage's replicas sum theirs, or fp16 left some out.
  if (stepNumber)
    arena.store(stepNumber, float(stage.made + 1));
  if (program.asynchronous && gradientScale)
    arena.store(gradientScale, 1 / float(summed(stage, microbatch)));
  if (arena.isRemote())
    requireWeights(stage, number - 1);
  // 2. The update writes the next version; nobody may still read what lay there. Without a ring no
  // backward pass reads a weight that changes.
  bool hasRing = stage.info->versionRegion >= 0;
  int next = stage.version;
  if (hasRing)
    next = (next + 1) % program.regions[stage.info->versionRegion].copies;
  for (const Slot &slot : stage.slots)
    if (hasRing && slot.owner >= 0 && slot.version == next)
      throw Error("stage ", stage.info->id, ", step ", number, ": microbatch ", slot.owner,
                  " still reads the weight version that the update would overwrite; the schedule "
                  "needs more versions");
  Run run = runOf(stage, 0, false);
  run.nextBase = version(stage, next);
  run.lost = stage.lost;
  Seconds begin = now();
  stage.version = next;
  if (!lossScale.overflowed)
    runKernels(stage, Phase::update, run);
  if (!arena.isRemote())
    requireWeights(stage, number);
  stage.made += lossScale.overflowed ? 0 : 1;
  ++stage.updates;
  runPrepare(stage);
  events.add({Timeline::Kind::run, Phase::update, stage.info->id, number, microbatch, -1, 0, begin,
              now()});
  reportLoss(stage, microbatch);
  if (afterUpdate)
    (*afterUpdate)();
}

void Executor::runPrepare(Stage &stage) {
  try {
    runKernels(stage, Phase::prepare, runOf(stage, 0, false));
  } catch (const DataError &error) {
    throw Error(inputs->locate(-1, error));
  }
}

// Addresses.

Executor::Stage &Executor::stageOf(int id) {
  for (Stage &stage : stages)
    if (stage.info->id == id)
      return stage;
  throw Error("rank ", program.rank, " does not hold stage ", id);
}

static bool overlap(const Transfer &a, const Transfer &b) {
  return a.place.region == b.place.region && a.place.offset < b.place.offset + b.bytes &&
         b.place.offset < a.place.offset + a.bytes;
}

/// The slot of a microbatch, once what the one before it left there has been sent. A receive does
/// not wait for a send of its own group, as the schedule's proof assumes, unless they share bytes.
int Executor::takeSlot(Stage &stage, int64_t microbatch, bool evaluation,
                       const Transfer *incoming) {
  std::vector<Slot> &slots = evaluation ? stage.evaluationSlots : stage.slots;
  std::span<const int> table = stage.info->slotTable;
  size_t turn = size_t(microbatch) / stage.info->ranks.size();
  int index = evaluation ? int(turn % slots.size()) : table[turn % table.size()];
  waitFor([&](const Pending &p) {
    return p.stage == stage.info->id && p.slot == index && p.evaluation == evaluation &&
           p.microbatch != microbatch &&
           !(incoming && p.group == groups && !overlap(program.transfers[p.transfer], *incoming));
  });
  Slot &slot = slots[index];
  if (slot.owner != microbatch)
    slot = {microbatch, -1};
  return index;
}

std::byte *Executor::version(const Stage &stage, int copy) const {
  int region = stage.info->versionRegion;
  return region < 0 ? arena.region(program.fixedRegion) : arena.region(region, copy);
}

Run Executor::runOf(const Stage &stage, int slot, bool evaluation) const {
  Run run;
  run.queue = arena.queue();
  run.fixedBase = arena.region(program.fixedRegion);
  run.scratchBase = arena.region(program.scratchRegion);
  run.slotBase =
      arena.region(evaluation ? stage.info->evaluationRegion : stage.info->slotRegion, slot);
  run.latestBase = run.stashedBase = run.nextBase = version(stage, stage.version);
  if (!evaluation && stage.slots[slot].version >= 0)
    run.stashedBase = version(stage, stage.slots[slot].version);
  return run;
}

float *Executor::scalar(const char *name) const {
  const Memory *memory = findMemory(program, name);
  return memory && memory->element == ElementType::f32
             ? reinterpret_cast<float *>(arena.at(memory->place))
             : nullptr;
}

} // namespace pdc::runtime
