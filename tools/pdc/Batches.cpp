#include "tools/pdc/Batches.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/onnx/Binding.h"
#include "compiler/plan/PlannedRows.h"
#include "tools/Command.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace pdc {

/// More microbatches than this per worker shorten the bubble by less than their overhead.
static constexpr int64_t kMicrobatchesPerWorker = 8;

static int64_t samplesOfUpdate(const Model &model, const Options &options) {
  if (!options.minibatch)
    throw Error(model.name + ": the first dimension of its inputs has a name and no size; say how "
                             "many samples an update has, as in --minibatch 64");
  return *options.minibatch;
}

static std::string number(int64_t value) { return std::to_string(value); }

static std::vector<int64_t> divisors(int64_t value, int64_t most) {
  std::vector<int64_t> result;
  for (int64_t i = 1; i <= std::min(value, most); ++i)
    if (value % i == 0)
      result.push_back(i);
  return result;
}

static int64_t inputReplicas(const Options &options) {
  return options.plan.replicas.empty() ? 1 : options.plan.replicas[0];
}

static std::vector<Batch> batchesOfFixedSize(int64_t size, const Options &options,
                                             int64_t usualMicrobatches) {
  int64_t replicas = inputReplicas(options);
  if (options.minibatch && *options.minibatch % (size * replicas) != 0)
    throw Error("--minibatch " + number(*options.minibatch) + ": a microbatch of the model has " +
                number(size) + " samples" +
                (replicas > 1 ? " and the first stage " + number(replicas) + " replicas" : "") +
                ", and this is no multiple of " +
                (replicas > 1 ? number(size * replicas) : std::string("it")));
  int64_t given = options.minibatch ? *options.minibatch / size / replicas : 0;
  if (given && options.microbatches && given != *options.microbatches)
    throw Error("--microbatches " + number(*options.microbatches) + ": --minibatch " +
                number(*options.minibatch) + " makes " + number(given) + " microbatches of the " +
                number(size) +
                " samples that the model's batch dimension is fixed to; leave "
                "--microbatches out, or export the model with a symbolic batch dimension");
  if (given > kMostMicrobatches)
    throw Error("--minibatch " + number(*options.minibatch) + ": makes " + number(given) +
                " microbatches of " + number(size) + " samples, expected at most " +
                number(kMostMicrobatches));
  if (!given)
    given = options.microbatches.value_or(usualMicrobatches);
  return {{size, given, replicas}};
}

bool opensReplicas(const Options &options) {
  return !isFileOfRows(options.plan.schedule) && !options.plan.stages &&
         options.plan.assignment.empty() && !options.plan.exact &&
         options.plan.recompute.stages.empty();
}

bool opensDataParallelism(const Options &options) {
  return options.plan.schedule == "auto" && opensReplicas(options);
}

/// Replicas that the first stage of a pipeline may have where each takes a microbatch of an update.
static std::vector<int64_t> openInputReplicas(const Options &options) {
  if (!opensReplicas(options) || options.microbatches || options.plan.workers < 3)
    return {inputReplicas(options)};
  // Vertical sync needs equal replicas of two stages at least.
  if (options.plan.verticalSync)
    return divisors(options.plan.workers, options.plan.workers / 2);
  std::vector<int64_t> replicas(options.plan.workers - 1);
  std::iota(replicas.begin(), replicas.end(), 1);
  return replicas;
}

/// For who took the replicas of a single stage for the number of stages.
static std::string hintAtStages(const Options &options) {
  const int64_t count = inputReplicas(options);
  if (options.plan.replicas.size() != 1 || count < 2 || count > 8)
    return "";
  std::string each = "1";
  for (int64_t stage = 1; stage < count; ++stage)
    each += "-1";
  return "; --stages " + number(count) + " is one stage of them, " + each + " are " +
         number(count) + " stages";
}

static std::vector<Batch> batchesOfMinibatch(int64_t minibatch, const Options &options,
                                             int64_t mostMicrobatches) {
  int64_t replicas = inputReplicas(options), ofReplica = minibatch / replicas;
  int64_t pieces = options.microbatches.value_or(1) * replicas;
  if (minibatch % pieces != 0)
    throw UsageError(
        "--minibatch " + number(minibatch) + ": cannot be cut into " + number(pieces) +
        " equal microbatches" +
        (replicas > 1 ? ", as " + number(replicas) + " replicas of the first stage need" : "") +
        hintAtStages(options));
  std::vector<Batch> batches;
  if (options.microbatches) {
    batches.push_back({minibatch / pieces, *options.microbatches, replicas});
    int64_t workers = options.plan.workers;
    if (opensDataParallelism(options) && workers > 1 && *options.microbatches % workers == 0)
      batches.push_back({minibatch / pieces, *options.microbatches / workers, workers});
    return batches;
  }
  for (int64_t count : divisors(ofReplica, mostMicrobatches))
    batches.push_back({ofReplica / count, count, replicas});
  return batches;
}

/// PipeDream's cost models choose the replicas of the first stage, which share an update's samples:
/// the microbatches that each number of them would take, smallest first.
static std::vector<Batch> batchesOfClosedForm(const Model &model, const Options &options) {
  if (std::optional<int64_t> size = fixedMicrobatchSize(model, options.dimensions))
    return {{*size, 1, 1}};
  std::vector<Batch> batches;
  for (int64_t replicas : divisors(samplesOfUpdate(model, options), options.plan.workers))
    batches.insert(batches.begin(), {*options.minibatch / replicas, 1, 1});
  return batches;
}

/// Of schedules that update behind each microbatch of every replica of the first stage.
static std::vector<Batch> batchesOfSingleMicrobatches(const Model &model, const Options &options) {
  const std::vector<int64_t> open = openInputReplicas(options);
  const std::optional<int64_t> size = fixedMicrobatchSize(model, options.dimensions);
  if (!size && open.size() == 1)
    return batchesOfMinibatch(samplesOfUpdate(model, options), options, 1);
  std::vector<Batch> batches;
  for (int64_t replicas : open) {
    const int64_t samples = options.minibatch.value_or(size.value_or(1) * replicas);
    if (size ? samples == *size * replicas : samplesOfUpdate(model, options) % replicas == 0)
      batches.push_back({samples / replicas, 1, replicas});
  }
  if (!batches.empty())
    return batches;
  const std::string each = open.size() == 1
                               ? number(*size * open[0]) + " samples"
                               : number(*size) + " samples for each of 1 to " +
                                     number(open.back()) + " replicas; --stages says others";
  throw Error("--minibatch " + number(*options.minibatch) + ": in schedule '" +
              options.plan.schedule + "' an update has one microbatch" +
              (open.back() > 1 ? " of each replica of the first stage" : "") + ", expected " +
              each);
}

std::vector<Batch> openBatches(const Model &model, const Options &options, bool sums) {
  if (!sums && options.microbatches.value_or(1) != 1)
    throw UsageError("--microbatches " + number(*options.microbatches) + ": in schedule '" +
                     options.plan.schedule + "' each microbatch is its own update; leave it out");
  if (isClosedForm(options.plan.costModel))
    return batchesOfClosedForm(model, options);
  int64_t stages = options.plan.stages ? options.plan.stages : std::max(options.plan.workers, 1);
  int64_t most = stages == 1 ? 1 : kMicrobatchesPerWorker * stages;
  if (!sums)
    return batchesOfSingleMicrobatches(model, options);
  if (std::optional<int64_t> size = fixedMicrobatchSize(model, options.dimensions))
    return batchesOfFixedSize(*size, options, std::max<int64_t>(most / 2, 1));
  std::vector<Batch> batches = batchesOfMinibatch(samplesOfUpdate(model, options), options, most);
  // Other numbers are refused, where there are any that are not.
  auto fits = [&](const Batch &batch) { return batch.microbatches % options.plan.workers == 0; };
  if (options.plan.schedule == "interleaved" && std::ranges::any_of(batches, fits))
    std::erase_if(batches, std::not_fn(fits));
  return batches;
}

std::vector<std::vector<Batch>> bySize(const std::vector<Batch> &batches, int workers) {
  std::vector<std::vector<Batch>> sizes;
  for (const Batch &batch : batches) {
    auto same = std::ranges::find_if(
        sizes, [&](auto &size) { return size[0].microbatchSize == batch.microbatchSize; });
    if (same == sizes.end())
      same = sizes.emplace(sizes.end());
    same->push_back(batch);
  }
  auto distance = [&](const std::vector<Batch> &size) {
    auto microbatches = static_cast<double>(size[0].microbatches * size[0].inputReplicas);
    return std::abs(std::log(microbatches / workers));
  };
  std::ranges::stable_sort(sizes, {}, distance);
  return sizes;
}

static constexpr size_t kMostUnitsOfAllSizes = 500;

bool plansBestSizes(const Options &options, bool sums, size_t units) {
  return units > kMostUnitsOfAllSizes && sums && !isClosedForm(options.plan.costModel);
}

bool liesBeyondSlower(int64_t samples, int64_t best, const std::vector<int64_t> &planned) {
  return std::ranges::any_of(planned, [&](int64_t slower) {
    return (samples < slower && slower < best) || (samples > slower && slower > best);
  });
}

std::vector<Batch> batchesNear(int64_t samples, const std::vector<Batch> &open, const Model &model,
                               const Options &options, bool sums) {
  if (!sums)
    return open;
  auto distance = [&](const Batch &batch) {
    return std::abs(
        std::log(static_cast<double>(batch.microbatchSize) / static_cast<double>(samples)));
  };
  double least = distance(*std::ranges::min_element(open, {}, distance));
  std::vector<Batch> near = open;
  std::erase_if(near, [&](const Batch &batch) { return distance(batch) > least; });
  int64_t workers = options.plan.workers;
  auto canShare = [&](const Batch &batch) { return batch.microbatches % workers == 0; };
  if (!opensDataParallelism(options) || options.microbatches ||
      fixedMicrobatchSize(model, options.dimensions) || *options.minibatch % workers ||
      std::ranges::any_of(near, canShare))
    return near;
  std::vector<Batch> parallel;
  for (int64_t count : divisors(*options.minibatch / workers, kMicrobatchesPerWorker))
    parallel.push_back({*options.minibatch / workers / count, count, workers});
  near.push_back(*std::ranges::min_element(parallel, {}, distance));
  return near;
}

} // namespace pdc
