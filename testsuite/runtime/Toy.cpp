#include "testsuite/runtime/Toy.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

namespace toy {

// Offsets inside the regions.
constexpr int64_t kRow = 8192;
constexpr int64_t kX = 0, kY = kRow, kDy = 2 * kRow, kDx = 3 * kRow, kLabels = 4 * kRow,
                  kSlotBytes = kLabels + 64;
/// Rows travel with what lies behind their numbers: more than MPI sends without asking the
/// receiver.
constexpr int64_t kTransferBytes = kRow;
constexpr int64_t kRate = 0, kScale = 64, kStep = 128, kLoss = 192, kWeightSum = 256,
                  kEvaluationLoss = 320, kEvaluationWeight = 384, kCorrect = 448, kGradient = 512,
                  kFixedWeight = 576, kFloat16 = 640, kBFloat16 = 704, kFixedBytes = 768;
enum Regions { fixedRegion, versionsRegion, slotsRegion, scratchRegion, evaluationRegion };

static Shape current; // createTasks is a plain function

std::string shapeText(const Shape &shape) {
  return std::to_string(shape.stages) + " " + std::to_string(shape.microbatches) + " " +
         std::to_string(shape.asynchronous) + " " + std::to_string(shape.slowTask) + " " +
         std::to_string(shape.hangingStage) + " " + std::to_string(shape.dyingStage) + " " +
         std::to_string(shape.stoppingStage) + " " + std::to_string(shape.stashes);
}

Shape shapeFrom(const std::string &text) {
  Shape shape;
  std::istringstream fields(text);
  fields >> shape.stages >> shape.microbatches >> shape.asynchronous >> shape.slowTask >>
      shape.hangingStage >> shape.dyingStage >> shape.stoppingStage >> shape.stashes;
  return shape;
}

float initialWeight(int stage) { return 1.0f + 0.25f * float(stage); }

namespace {

class StageTasks : public Tasks {
public:
  explicit StageTasks(int stage) : stage(stage), last(stage == current.stages - 1) {}
  void forward(const Run &run) override;
  void backward(const Run &run) override;
  void update(const Run &run) override;
  void evaluate(const Run &run) override;

private:
  static int64_t weightAt() { return current.asynchronous ? 0 : kFixedWeight; }
  void lossOf(const Run &run, int64_t lossAt, int64_t weightSumAt, bool gradient) const;
  void multiply(const Run &run, const float *weight) const;
  int stage;
  bool last;
  int forwards = 0;
};

void StageTasks::multiply(const Run &run, const float *weight) const {
  const float *x = run.slot(kX);
  float *y = run.slot(kY);
  for (int64_t i = 0; i < kBatch * kWidth; ++i)
    y[i] = weight[i % kWidth] * x[i];
}

void StageTasks::lossOf(const Run &run, int64_t lossAt, int64_t weightSumAt, bool gradient) const {
  const float *y = run.slot(kY);
  const int64_t *labels = run.slot<int64_t>(kLabels);
  float loss = 0, weights = 0, counted = 0;
  for (int64_t n = 0; n < kBatch; ++n)
    counted += labels[n] != -100;
  for (int64_t n = 0; n < kBatch; ++n) {
    float sum = 0;
    for (int64_t i = 0; i < kWidth; ++i)
      sum += y[n * kWidth + i];
    bool counts = labels[n] != -100;
    float difference = counts ? sum - float(labels[n]) : 0;
    loss += difference * difference / 2;
    weights += counts;
    if (gradient)
      for (int64_t i = 0; i < kWidth; ++i)
        run.slot(kDy)[n * kWidth + i] = current.asynchronous ? difference / counted : difference;
  }
  float *total = run.fixed(lossAt), *weightSum = run.fixed(weightSumAt);
  *total = run.first() ? loss : *total + loss;
  *weightSum = run.first() ? weights : *weightSum + weights;
}

void StageTasks::forward(const Run &run) {
  ++forwards;
  if (current.slowTask > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(current.slowTask));
  if (stage == current.hangingStage && forwards == 3)
    std::this_thread::sleep_for(std::chrono::seconds(4));
  if (stage == current.dyingStage && forwards == 3)
    std::raise(SIGKILL);
  if (stage == current.stoppingStage && forwards == 9)
    std::raise(SIGTERM);
  multiply(run, run.latest(weightAt()));
  if (last)
    lossOf(run, kLoss, kWeightSum, true);
}

void StageTasks::backward(const Run &run) {
  const float *x = run.slot(kX), *dy = run.slot(kDy);
  const float *weight = current.stashes ? run.ofMicrobatch(weightAt()) : run.latest(weightAt());
  float *dx = run.slot(kDx), *gradient = run.fixed(kGradient);
  for (int64_t i = 0; i < kWidth; ++i) {
    float sum = 0;
    for (int64_t n = 0; n < kBatch; ++n) {
      sum += dy[n * kWidth + i] * x[n * kWidth + i];
      dx[n * kWidth + i] = weight[i] * dy[n * kWidth + i];
    }
    gradient[i] = run.first() ? sum : gradient[i] + sum;
  }
}

void StageTasks::update(const Run &run) {
  const float *weight = run.latest(weightAt()), *gradient = run.fixed(kGradient);
  float rate = *run.fixed(kRate), scale = *run.fixed(kScale);
  for (int64_t i = 0; i < kWidth; ++i)
    run.next(weightAt())[i] = weight[i] - rate * (scale * gradient[i]);
}

void StageTasks::evaluate(const Run &run) {
  multiply(run, run.latest(weightAt()));
  if (!last)
    return;
  lossOf(run, kEvaluationLoss, kEvaluationWeight, false);
  *run.fixed(kCorrect) = *run.fixed(kEvaluationWeight);
}

Tasks *createTasks(int stage, const Device &) { return new StageTasks(stage); }

} // namespace

Pipeline::Pipeline(const Shape &shape) : shape(shape) {
  current = shape;
  all.resize(shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage)
    fill(stage);
}

void Pipeline::fillMemories(Tables &t, int stage) {
  auto add = [&](std::string name, Role role, ElementType element, std::span<const int64_t> shape,
                 Place place, int64_t bytes, Initial initial = Initial::none, double fill = 0) {
    t.names.push_back(std::move(name));
    bool versioned = place.region == versionsRegion;
    t.memories.push_back(
        {t.names.back().c_str(), role, element, shape, "", place, bytes, initial, fill, versioned});
  };
  t.names.reserve(32);
  t.inputShape = {kBatch, kWidth};
  t.labelShape = {kBatch};
  t.weightShape = {kWidth};
  auto number = std::span<const int64_t>();
  std::string w = "w" + std::to_string(stage);
  Place weight = shape.asynchronous ? Place{versionsRegion, 0} : Place{fixedRegion, kFixedWeight};
  add(w, Role::weight, ElementType::f32, t.weightShape, weight, 16, Initial::fill,
      initialWeight(stage));
  add(w + "/gradient", Role::gradient, ElementType::f32, t.weightShape, {fixedRegion, kGradient},
      16);
  add("pdc.learning_rate", Role::input, ElementType::f32, number, {fixedRegion, kRate}, 4);
  add("pdc.gradient_scale", Role::input, ElementType::f32, number, {fixedRegion, kScale}, 4);
  add("pdc.step", Role::input, ElementType::f32, number, {fixedRegion, kStep}, 4);
  if (stage == 0) {
    // Nothing computes with these: they are made, saved and loaded.
    add("w0/float16", Role::optimizer, ElementType::f16, t.weightShape, {fixedRegion, kFloat16}, 8,
        Initial::fill, 0.1);
    add("w0/bfloat16", Role::optimizer, ElementType::bf16, t.weightShape, {fixedRegion, kBFloat16},
        8, Initial::fill, 0.1);
    add("x", Role::input, ElementType::f32, t.inputShape, {slotsRegion, kX}, 32);
    add("x", Role::input, ElementType::f32, t.inputShape, {evaluationRegion, kX}, 32);
  }
  if (stage != shape.stages - 1)
    return;
  add("y", Role::input, ElementType::i64, t.labelShape, {slotsRegion, kLabels}, 16, Initial::fill,
      -100);
  add("y", Role::input, ElementType::i64, t.labelShape, {evaluationRegion, kLabels}, 16,
      Initial::fill, -100);
  add("pdc.loss", Role::metric, ElementType::f32, number, {fixedRegion, kLoss}, 4);
  add("pdc.loss_weight", Role::metric, ElementType::f32, number, {fixedRegion, kWeightSum}, 4);
  add("pdc.evaluation_loss", Role::metric, ElementType::f32, number, {fixedRegion, kEvaluationLoss},
      4);
  add("pdc.evaluation_loss_weight", Role::metric, ElementType::f32, number,
      {fixedRegion, kEvaluationWeight}, 4);
  add("pdc.evaluation_correct", Role::metric, ElementType::f32, number, {fixedRegion, kCorrect}, 4);
}

/// Stage s stands on rank s alone.
static std::span<const int> rankAlone(int stage) {
  static constexpr int ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
  return std::span(ranks).subspan(size_t(stage), 1);
}

void Pipeline::addTransfer(Tables &t, std::vector<Step> &rows, StepKind kind, int stage,
                           Phase phase, int64_t microbatch) {
  bool backward = phase == Phase::backward, send = kind == StepKind::send;
  int to = stage + (send != backward ? 1 : -1);
  if (to < 0 || to >= shape.stages)
    return;
  int lower = std::min(stage, to), kindNumber = phase == Phase::forward ? 0 : backward ? 1 : 2;
  int region = phase == Phase::evaluate ? evaluationRegion : slotsRegion;
  int64_t offset = backward ? (send ? kDx : kDy) : (send ? kY : kX);
  static std::map<int, std::string> names;
  std::string &name = names[lower * 3 + kindNumber];
  name = "y" + std::to_string(lower) + (backward ? "/grad" : "");
  rows.push_back({kind, phase, stage, microbatch, int(t.transfers.size())});
  t.transfers.push_back({name.c_str(),
                         ElementType::f32,
                         rankAlone(to),
                         lower * 3 + kindNumber,
                         stage,
                         phase,
                         {region, offset},
                         kTransferBytes});
}

/// Receives, the task, sends.
void Pipeline::addTask(Tables &t, std::vector<Step> &rows, int stage, Phase phase,
                       int64_t microbatch) {
  addTransfer(t, rows, StepKind::receive, stage, phase, microbatch);
  rows.push_back({StepKind::run, phase, stage, microbatch, -1});
  addTransfer(t, rows, StepKind::send, stage, phase, microbatch);
}

void Pipeline::fillRows(Tables &t, int stage) {
  int64_t ahead = shape.stages - 1 - stage, m = shape.microbatches;
  addTask(t, t.evaluation, stage, Phase::evaluate, 0);
  if (shape.asynchronous) {
    for (int64_t k = 0; k < ahead; ++k)
      addTask(t, t.warmUp, stage, Phase::forward, k);
    auto pair = [&](std::vector<Step> &rows, int64_t k, bool forward) {
      if (forward)
        addTask(t, rows, stage, Phase::forward, k + ahead);
      addTask(t, rows, stage, Phase::backward, k);
      rows.push_back({StepKind::run, Phase::update, stage, k, -1});
    };
    pair(t.repeat, 0, true);
    for (int64_t k = 0; k < shape.stages - 1; ++k)
      pair(t.drain, k, k < stage);
    return;
  }
  ahead = std::min(ahead, m);
  for (int64_t k = 0; k < m + ahead; ++k) {
    if (k < m)
      addTask(t, t.step, stage, Phase::forward, k);
    if (k >= ahead)
      addTask(t, t.step, stage, Phase::backward, k - ahead);
  }
  t.step.push_back({StepKind::allReduce, Phase::update, stage, m - 1, -1});
  t.step.push_back({StepKind::run, Phase::update, stage, m - 1, -1});
}

void Pipeline::fill(int stage) {
  Tables &t = tables.emplace_back();
  int slots = shape.stages - stage;
  int64_t at = 0;
  auto region = [&](const char *name, int64_t stride, int copies) {
    t.regions.push_back({name, at, stride, copies});
    at += stride * copies;
  };
  region("fixed", kFixedBytes, 1);
  region("versions", 64, slots);
  region("slots", kSlotBytes, slots);
  region("scratch", 64, 1);
  region("evaluation", kSlotBytes, 2);
  fillMemories(t, stage);
  fillRows(t, stage);
  for (int slot = 0; slot < slots; ++slot)
    t.slotTable.push_back(slot);
  t.stages.push_back({stage,
                      rankAlone(stage),
                      slotsRegion,
                      evaluationRegion,
                      t.slotTable,
                      shape.asynchronous ? int(versionsRegion) : -1,
                      1e-6,
                      2e-6,
                      {},
                      {}});
  Program &p = all[stage];
  p = {};
  p.contractVersion = kContractVersion;
  p.model = "toy";
  p.planHash = "toy";
  p.rank = stage;
  p.ranks = shape.stages;
  p.schedule = shape.asynchronous ? "pipedream" : "1f1b";
  p.asynchronous = shape.asynchronous;
  p.exact = true;
  p.threads = 1;
  p.microbatches = shape.asynchronous ? 1 : shape.microbatches;
  p.microbatchSize = kBatch;
  p.learningRate = 0.5;
  p.arenaBytes = at;
  p.fixedRegion = fixedRegion;
  p.scratchRegion = scratchRegion;
  p.regions = t.regions;
  p.memories = t.memories;
  p.transfers = t.transfers;
  p.training = {t.step, t.warmUp, t.repeat, t.drain, 1};
  p.evaluation = {.repeat = t.evaluation, .period = 1};
  p.stages = t.stages;
  p.createTasks = createTasks;
}

} // namespace toy
