#include "runtime/Executor.h"

#include "runtime/Error.h"
#include "runtime/NamedNumbers.h"

#include <algorithm>
#include <cmath>
#include <map>

/// What ranks sum once per update: losses, gradients of tied weights, the gradient's norm.
namespace pdc::runtime {

void Executor::reduceTraining() {
  control.setActivity({"sums losses with all ranks", "", -1, stages.front().info->id, Phase::update,
                       step, limit - 1});
  Seconds begin = now();
  // A replica without a microbatch has the loss of an earlier step.
  bool hasLoss = !stages.back().starts[size_t(Phase::forward)];
  double sums[3] = {loss && hasLoss ? arena.load(loss) : 0.0,
                    lossWeight && hasLoss ? arena.load(lossWeight) : 0.0, stopSignal ? 1.0 : 0.0};
  if (arena.isRemote())
    requireFiniteSum(sums[0]);
  control.sum(sums);
  totals = {sums[0], sums[1], 0, sums[2]};
  reduceSharedGradients();
  double scale = (totals.weight > 0 ? 1 / totals.weight : 0) * clipFactor();
  if (gradientScale)
    arena.store(gradientScale, float(scale));
  reduced = true;
  events.add({Timeline::Kind::allReduce, Phase::update, stages.front().info->id, step, limit - 1,
              -1, 0, begin, now()});
}

void Executor::reduceSharedGradients() {
  if (sharedGradients.empty())
    return;
  std::fill(sharedSums.begin(), sharedSums.end(), 0.0);
  auto forEach = [&](auto visit) {
    double *sums = sharedSums.data();
    for (const Shared &shared : sharedGradients) {
      if (shared.memory)
        visit(shared, sums);
      sums += shared.elements;
    }
  };
  forEach([&](const Shared &shared, double *sums) {
    const Memory &gradient = *shared.memory;
    const std::byte *there = arena.look(arena.at(gradient.place), gradient.bytes, looked);
    if (shared.contributes)
      std::copy_n(reinterpret_cast<const float *>(there), shared.elements, sums);
  });
  control.sum(sharedSums);
  forEach([&](const Shared &shared, double *sums) {
    const Memory &gradient = *shared.memory;
    arena.put(arena.at(gradient.place), gradient.bytes, [&](std::byte *to) {
      std::transform(sums, sums + shared.elements, reinterpret_cast<float *>(to),
                     [](double sum) { return float(sum); });
    });
  });
}

/// Always the same order, whoever holds the gradient: eight interleaved sums, then their sum.
static double sumOfSquares(const float *values, int64_t count) {
  double sums[8] = {};
  for (int64_t i = 0; i < count; ++i)
    sums[i % 8] += double(values[i]) * double(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double Executor::clipFactor() {
  if (options.clipNorm <= 0)
    return 1;
  // 1. One sum per weight from the one rank that speaks for it, so that no split changes a bit.
  for (size_t i = 0; i < ownGradients.size(); ++i) {
    const Memory *memory = ownGradients[i];
    squaresByName[i] = 0;
    if (!memory)
      continue;
    const std::byte *there = arena.look(arena.at(memory->place), memory->bytes, looked);
    squaresByName[i] = sumOfSquares(reinterpret_cast<const float *>(there), memory->bytes / 4);
  }
  control.sum(squaresByName);
  // 2. Added in the order of their names.
  double total = 0;
  for (double squares : squaresByName)
    total += squares;
  norm = totals.weight > 0 ? std::sqrt(total) / totals.weight : 0;
  requireFiniteNorm();
  return std::min(1.0, options.clipNorm / (norm + 1e-6));
}

void Executor::agreeOnGradients() {
  // 1. Every stage tells its gradients, names and sizes: the first of its replicas speaks.
  std::string mine;
  bool speaks = stages.front().replica == 0;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::gradient && speaks)
      mine += namedNumber(memory.name, memory.bytes / 4);
  std::vector<std::string> all;
  control.gather(mine, all);
  // 2. Who holds what: by name the first rank, the size and the number of ranks.
  struct Holders {
    int first;
    int64_t elements;
    int count;
  };
  std::map<std::string, Holders> holders;
  for (int rank = 0; rank < int(all.size()); ++rank)
    for (const auto &[name, elements] : namedNumbers(all[rank], rank)) {
      Holders &holder = holders.try_emplace(name, Holders{rank, elements, 0}).first->second;
      if (holder.elements != elements)
        throw Error("gradient '", name, "' has ", holder.elements, " elements on rank ",
                    holder.first, " and ", elements, " on rank ", rank,
                    "; build all stages from one plan");
      ++holder.count;
    }
  // 3. The tables in the order of the names, the same on every rank.
  int64_t sharedElements = 0;
  for (const auto &[name, holder] : holders) {
    auto here = std::find_if(program.memories.begin(), program.memories.end(), [&](auto &memory) {
      return memory.role == Role::gradient && memory.name == name;
    });
    const Memory *memory = here == program.memories.end() ? nullptr : &*here;
    ownGradients.push_back(holder.first == program.rank ? memory : nullptr);
    if (holder.count == 1)
      continue;
    if (program.asynchronous)
      throw Error("gradient '", name, "' is shared by ", holder.count,
                  " ranks, which asynchronous schedules cannot sum; use a synchronous schedule");
    sharedGradients.push_back({memory, holder.elements, speaks});
    sharedElements += holder.elements;
  }
  squaresByName.resize(ownGradients.size());
  sharedSums.resize(sharedElements);
}

} // namespace pdc::runtime
