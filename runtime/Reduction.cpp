#include "runtime/Executor.h"

#include "runtime/Error.h"
#include "runtime/MemoryTensors.h"
#include "runtime/NamedNumbers.h"
#include "runtime/Waiting.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

/// What ranks tell one another once per update: losses, gradients of tied weights, the gradient's
/// norm.
namespace pdc::runtime {

/// Above the tags of the sums over replicas.
constexpr int kFirstExchangeTag = 1 << 21;

/// The sum began during the last backward pass; the update waits for its end.
void Executor::reduceGradients(Stage &stage, int64_t last) {
  if (!hasBegun(stage, last))
    return;
  control.setActivity({"sums gradients with the other replicas", "", -1, stage.info->id,
                       Phase::update, step, last});
  Seconds begin = now();
  replicaSums.finish(stage.info->id, participants(stage, last));
  events.add({Timeline::Kind::reduceGradients, Phase::update, stage.info->id, step, last, -1, 0,
              begin, now()});
}

void Executor::reduceTraining() {
  // A device still works on what the losses are of.
  if (std::exchange(readsAhead, false))
    deviceInputs.readNext(*inputs, limit);
  control.setActivity({"sums losses with all ranks", "", -1, stages.front().info->id, Phase::update,
                       step, limit - 1});
  Seconds begin = now();
  // A replica without a microbatch has the loss of an earlier step.
  bool hasLoss = !stages.back().starts[size_t(Phase::forward)];
  const auto [lossHere, weightHere, finite] = arena.load(
      std::array<const float *, 3>{hasLoss ? loss : nullptr, hasLoss ? lossWeight : nullptr,
                                   scalesLoss ? arena.testFinite(gradients) : nullptr});
  double sums[4] = {lossHere, weightHere, stopSignal ? 1.0 : 0.0,
                    scalesLoss && finite == 0 ? 1.0 : 0.0};
  if (arena.isRemote())
    requireFiniteSum(sums[0], step, 0, limit - 1);
  control.sum(sums);
  totals = {sums[0], sums[1], 0, sums[2]};
  exchangeGradients();
  const bool isLeftOut = sums[3] > 0;
  double scale = totals.weight > 0 ? 1 / (totals.weight * lossFactor()) : 0;
  scale *= isLeftOut ? 0 : clipFactor();
  if (isLeftOut)
    norm = 0;
  if (scalesLoss)
    endScaledStep(isLeftOut);
  if (gradientScale)
    arena.store(gradientScale, float(scale));
  reduced = true;
  events.add({Timeline::Kind::allReduce, Phase::update, stages.front().info->id, step, limit - 1,
              -1, 0, begin, now()});
}

/// Every stage that holds a tied weight gets the gradients of all of its uses, each from the stage
/// that summed it, and adds them in its update.
void Executor::exchangeGradients() {
  exchangeMessages.clear();
  for (const Exchange &exchange : exchanges) {
    const Memory &memory = *exchange.memory;
    exchangeMessages.push_back(
        {exchange.send, exchange.peer, exchange.tag, arena.at(memory.place), memory.bytes});
  }
  if (!exchanges.empty())
    meet(transport, control, exchangeMessages, options.timeout,
         ", which holds a weight that is tied to one of its own");
}

/// Whether the loss is scaled is known where it is computed.
void Executor::agreeOnLossScale() {
  double scaling[2] = {0, 0}; // ranks that scale it, and the weight that they expect in all
  // It begins with kFirst over the weight of a microbatch whose labels all count.
  if (lossScaleHere)
    scaling[0] = 1, scaling[1] = LossScale::kFirst / findMemory(program, "pdc.loss_scale")->fill;
  control.sum(scaling);
  scalesLoss = scaling[0] > 0;
  if (scalesLoss && lossScale.divisor == 0)
    lossScale.expectWeight(double(program.microbatches) * scaling[1] / scaling[0]);
  if (lossScaleHere)
    arena.store(lossScaleHere, float(lossScale.factor()));
  for (const Memory &memory : program.memories)
    if (scalesLoss && memory.role == Role::gradient)
      gradients.emplace_back(reinterpret_cast<const float *>(arena.at(memory.place)),
                             size_t(memory.bytes / 4));
}

/// The same on every rank. An update is left out where a gradient of any rank overflowed; what is
/// prepared of the scale is prepared anew with the weights.
void Executor::endScaledStep(bool hasOverflow) {
  lossScale.endStep(hasOverflow, totals.weight);
  if (lossScaleHere)
    arena.store(lossScaleHere, float(lossScale.factor()));
}

double Executor::clipFactor() {
  if (options.clipNorm <= 0)
    return 1;
  // 1. One sum per weight from the one rank that speaks for it, so that no split changes a bit.
  arena.sumSquares(ownGradients, squaresByName);
  control.sum(squaresByName);
  // 2. Added in the order of their names.
  double total = 0;
  for (double squares : squaresByName)
    total += squares;
  norm = totals.weight > 0 ? std::sqrt(total) / (totals.weight * lossFactor()) : 0;
  requireFiniteNorm();
  return std::min(1.0, options.clipNorm / (norm + 1e-6));
}

namespace {

/// Which ranks hold a gradient: those that sum it, the replicas of a stage, and those that gather
/// it.
struct Holders {
  int64_t elements = 0;
  std::vector<int> summing, gathering;

  int first() const {
    int first = summing.front();
    return gathering.empty() ? first : std::min(first, gathering.front());
  }
};

/// "w" of "w/gradient.1".
std::string weightOf(const std::string &gradient) {
  return gradient.substr(0, gradient.rfind("/gradient"));
}

void addHolders(std::map<std::string, Holders> &holders, const std::vector<std::string> &told,
                std::vector<int> Holders::*ranks) {
  for (int rank = 0; rank < int(told.size()); ++rank)
    for (const auto &[name, elements] : namedNumbers(told[rank], rank)) {
      Holders &holder = holders[name];
      if (holder.elements == 0)
        holder.elements = elements;
      if (holder.elements != elements)
        throw Error("gradient '", name, "' has ", elements, " elements on rank ", rank, " and ",
                    holder.elements, " on another; build all stages from one plan");
      (holder.*ranks).push_back(rank);
    }
}

} // namespace

/// The same tables on every rank, by name.
void Executor::agreeOnGradients() {
  // 1. Who holds what.
  std::map<std::string, Holders> holders;
  std::map<std::string, const Memory *> here;
  for (auto [role, ranks] : {std::pair(Role::gradient, &Holders::summing),
                             std::pair(Role::gathered, &Holders::gathering)}) {
    std::string mine;
    for (const Memory &memory : program.memories)
      if (memory.role == role) {
        mine += namedNumber(memory.name, memory.bytes / 4);
        here[memory.name] = &memory;
      }
    std::vector<std::string> all;
    control.gather(mine, all);
    addHolders(holders, all, ranks);
  }
  // 2. For each that gathers, one that sums: replicas take turns.
  int tag = kFirstExchangeTag;
  std::map<std::string, AddedTensors> ownByWeight;
  for (const auto &[name, holder] : holders) {
    if (holder.summing.empty())
      throw Error("no rank sums gradient '", name, "'; build all stages from one plan");
    AddedTensors &own = ownByWeight[weightOf(name)];
    if (holder.first() == program.rank) {
      own.terms.push_back(reinterpret_cast<const float *>(arena.at(here.at(name)->place)));
      own.count = holder.elements;
    }
    for (size_t i = 0; i < holder.gathering.size(); ++i) {
      int from = holder.summing[i % holder.summing.size()], to = holder.gathering[i];
      if (from == program.rank || to == program.rank)
        exchanges.push_back(
            {here.at(name), from == program.rank, from == program.rank ? to : from, tag});
    }
    ++tag;
  }
  // 3. What the norm needs.
  for (auto &[weight, uses] : ownByWeight) {
    ownGradients.push_back(std::move(uses));
    weightNames.push_back(weight);
  }
  squaresByName.resize(ownGradients.size());
  exchangeMessages.reserve(exchanges.size());
}

} // namespace pdc::runtime
