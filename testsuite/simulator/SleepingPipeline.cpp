#include "testsuite/simulator/SleepingPipeline.h"

#include "compiler/plan/Cut.h"

#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace pdc {

namespace {

std::vector<StageSeconds> stageSeconds; // createTasks is a plain function

class SleepingTasks : public runtime::Tasks {
public:
  explicit SleepingTasks(StageSeconds seconds) : seconds(seconds) {}
  void forward(const runtime::Run &) override { sleep(seconds.forward); }
  void backward(const runtime::Run &) override { sleep(seconds.of(Phase::backward)); }
  void backwardInput(const runtime::Run &) override { sleep(seconds.backwardInput); }
  void backwardWeight(const runtime::Run &) override { sleep(seconds.backwardWeight); }
  void update(const runtime::Run &) override { sleep(seconds.update); }
  void evaluate(const runtime::Run &) override {}

private:
  static void sleep(double time) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(time);
    // Not rounded up to the usual fifty microseconds.
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    std::this_thread::sleep_until(end);
  }
  StageSeconds seconds;
};

runtime::Tasks *createTasks(int stage, const runtime::Device &) {
  return new SleepingTasks(stageSeconds[stage]);
}

constexpr int64_t kLine = 64;
enum Regions { fixedRegion, slotsRegion, scratchRegion, evaluationRegion };

int64_t wholeLines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

runtime::Phase phaseOf(Phase phase) {
  using runtime::Phase;
  static constexpr Phase phases[] = {Phase::forward,        Phase::backward, Phase::backwardInput,
                                     Phase::backwardWeight, Phase::update,   Phase::prepare,
                                     Phase::evaluate};
  return phases[static_cast<int>(phase)];
}

runtime::StepKind kindOf(StepKind kind) {
  switch (kind) {
  case StepKind::run:
    return runtime::StepKind::run;
  case StepKind::send:
    return runtime::StepKind::send;
  case StepKind::receive:
    return runtime::StepKind::receive;
  default:
    return runtime::StepKind::allReduce;
  }
}

} // namespace

SleepingPipeline::SleepingPipeline(const Plan &source) : plan(source) {
  stageSeconds = playCosts(plan).stages;
  all.resize(plan.schedule.ranks.size());
  for (size_t rank = 0; rank < all.size(); ++rank)
    fill(static_cast<int>(rank));
}

/// Returns the bytes of a slot: what comes and goes lies side by side.
int64_t SleepingPipeline::addTransfers(Tables &t, int stage) {
  int64_t at = 0;
  t.transferOfEdge.assign(plan.edges.size(), -1);
  for (const Edge &edge : plan.edges) {
    bool sends = edge.fromStage == stage;
    if (!sends && edge.toStage != stage)
      continue;
    t.transferOfEdge[edge.id] = static_cast<int>(t.transfers.size());
    runtime::Transfer transfer{};
    transfer.tensor = edge.tensor.c_str();
    transfer.peers = plan.schedule.ranksOfStage[sends ? edge.toStage : edge.fromStage];
    transfer.tag = edge.id;
    transfer.stage = stage;
    transfer.phase = phaseOf(sends ? edge.producer : edge.consumer);
    transfer.place = {slotsRegion, at};
    transfer.bytes = edge.bytes;
    transfer.element = runtime::ElementType::u8;
    t.transfers.push_back(transfer);
    at += wholeLines(edge.bytes);
  }
  return at + kLine;
}

void SleepingPipeline::addRegions(Tables &t, int stage, int64_t slotBytes) {
  int64_t at = 0;
  auto region = [&](const char *name, int64_t stride, int copies) {
    t.regions.push_back({name, at, stride, copies});
    at += stride * copies;
  };
  region("fixed", 3 * kLine, 1);
  region("slots", slotBytes, plan.schedule.slots[stage]);
  region("scratch", kLine, 1);
  region("evaluation", kLine, 1);
  auto scalar = [&](const char *name, int64_t offset, double value) {
    runtime::Memory memory{};
    memory.name = name;
    memory.role = runtime::Role::metric;
    memory.layout = "";
    memory.place = {fixedRegion, offset};
    memory.bytes = 4;
    memory.initial = runtime::Initial::fill;
    memory.fill = value;
    t.memories.push_back(memory);
  };
  // Who has the loss tells when an update is done.
  if (stage + 1 == static_cast<int>(plan.stages.size())) {
    scalar("pdc.loss", 0, 1);
    scalar("pdc.loss_weight", kLine, 1);
  }
  all[stage].arenaBytes = at;
}

std::vector<runtime::Step> SleepingPipeline::stepsOf(const std::vector<Step> &rows,
                                                     const Tables &t) const {
  std::vector<runtime::Step> steps;
  for (const Step &row : rows)
    steps.push_back({kindOf(row.kind), phaseOf(row.task.phase), row.task.stage, row.task.microbatch,
                     row.edge < 0 ? -1 : t.transferOfEdge[row.edge]});
  return steps;
}

void SleepingPipeline::fill(int rank) {
  Tables &t = tables.emplace_back();
  int stage = rank;
  runtime::Program &p = all[rank];
  p = {};
  addRegions(t, stage, addTransfers(t, stage));
  const RankRows &rows = plan.schedule.ranks[rank];
  (plan.schedule.asynchronous ? t.warmUp : t.step) = stepsOf(rows.warmUp, t);
  t.repeat = stepsOf(rows.repeat, t);
  t.drain = stepsOf(rows.drain, t);
  runtime::StageInfo info{};
  info.id = stage;
  info.ranks = plan.schedule.ranksOfStage[stage];
  info.slotRegion = slotsRegion;
  info.evaluationRegion = evaluationRegion;
  info.slotTable = plan.schedule.slotTable[stage];
  info.versionRegion = -1;
  t.stages.push_back(info);
  p.contractVersion = runtime::kContractVersion;
  p.model = "sleeping";
  p.planHash = "sleeping";
  p.rank = rank;
  p.ranks = static_cast<int>(all.size());
  p.schedule = plan.scheduleName.c_str();
  p.asynchronous = plan.schedule.asynchronous;
  p.threads = 1;
  p.microbatches = plan.schedule.microbatches;
  p.microbatchSize = 1;
  p.fixedRegion = fixedRegion;
  p.scratchRegion = scratchRegion;
  p.regions = t.regions;
  p.memories = t.memories;
  p.transfers = t.transfers;
  p.training = {t.step, t.warmUp, t.repeat, t.drain, plan.schedule.period};
  p.evaluation.period = 1;
  p.stages = t.stages;
  p.createTasks = createTasks;
  p.secondsPerMinibatch = plan.secondsPerMinibatch;
}

} // namespace pdc
