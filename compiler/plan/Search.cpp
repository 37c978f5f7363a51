#include "compiler/plan/SearchTable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace pdc {

namespace {

std::vector<int> replicaChoices(int workers, bool straight) {
  if (straight)
    return {1};
  std::vector<int> choices;
  for (int replicas = 1; replicas<workers; replicas += workers> 32 ? std::max(1, replicas / 8) : 1)
    choices.push_back(replicas);
  choices.push_back(workers);
  return choices;
}

/// Bytes of a table that the fast caches hold.
constexpr size_t kCacheBytes = size_t(3) << 20;
/// Bytes worth spending so that prices are asked for once.
constexpr size_t kMostStoredBytes = size_t(256) << 20;
/// A single level is searched below these multiples of the mean before anything is allowed.
constexpr double kFirstLimit = 1.05, kNextLimit = 1.15, kLastLimit = 4;

} // namespace

Search::Search(const DownSets &sets, StageCost &cost, std::vector<int> workers, bool straight,
               double limit)
    : sets(sets), cost(cost), workers(std::move(workers)), limit(limit) {
  for (int count : this->workers)
    choices.push_back(replicaChoices(count, straight));
  for (int cut = 0; cut < sets.count(); ++cut)
    work.push_back(cost.leastSeconds(cut));
  if (top() == 0)
    return;
  inside.resize(sets.count());
  for (int to = 0; to < sets.count(); ++to)
    for (int from = 0; from < to; ++from)
      if (sets.nested(from, to))
        inside[to].push_back(from);
}

double Search::effort(double cuts, const std::vector<int> &workers, bool straight) {
  double sum = 0;
  for (size_t level = 0; level < workers.size(); ++level) {
    bool single =
        level + 1 == workers.size() || (level + 2 == workers.size() && workers.back() <= 2);
    double pairs = cuts * cuts / 2, ways = 0;
    for (int replicas : replicaChoices(workers[level], straight))
      ways += std::max(1, workers[level] - replicas);
    sum += single ? pairs * (ways / 4 + 20) : pairs * (ways * cuts / 12 + 10);
  }
  return sum;
}

bool Search::triesAllReplicas(const std::vector<int> &workers, bool straight) {
  return std::ranges::all_of(workers, [&](int count) {
    return straight || static_cast<int>(replicaChoices(count, straight).size()) == count;
  });
}

Search::Need Search::need(int level) const {
  Need result = Need::corner;
  for (int above = top(); above > level; --above)
    if (workers[above] > 1)
      result = result == Need::corner && workers[above] == 2 ? Need::cross : Need::all;
  return result;
}

/// A stage above divides the seconds of a component by its replicas at most.
double Search::priceLimit(int level) const {
  double result = limit;
  for (int above = top(); above > level; --above)
    result *= choices[above].back();
  return result;
}

Below Search::below(int level, double depth) {
  int count = workers[level];
  Below result(count, cost.byUsed());
  if (!cost.byUsed())
    result.table(0, 0) = &pairs(level - 1, 0);
  for (int used = 1; cost.byUsed() && used <= count; ++used)
    for (int replicas : choices[level])
      if (replicas <= used)
        result.table(replicas, used) =
            &pairs(level - 1, cost.depthBelow(level, depth, count - used, replicas));
  return result;
}

/// Worker-seconds that a worker of a level, with all that it consists of, has below the limit.
double Search::workerSeconds(int level) const {
  return priceLimit(level) *
         std::accumulate(workers.begin(), workers.begin() + level, 1.0, std::multiplies<>());
}

/// Workers that so much work takes at least; rounding must not ask for one more.
static int workersFor(double work, double workerSeconds) {
  return static_cast<int>(std::ceil(work / workerSeconds * (1 - 1e-9)));
}

/// Cuts at which a component of a level may begin: whole workers of the highest level do what is in
/// front of them and what is behind.
std::vector<int> Search::usefulSources(int level) const {
  std::vector<int> sources;
  double seconds = workerSeconds(top());
  for (int cut = 0; cut < last(); ++cut)
    if (level + 1 < top() ||
        workersFor(work[cut], seconds) + workersFor(work[last()] - work[cut], seconds) <=
            workers[top()])
      sources.push_back(cut);
  return sources;
}

PairSeconds &Search::pairs(int level, double depth) {
  std::unique_ptr<PairSeconds> &result = solved[{level, depth}];
  if (result)
    return *result;
  auto fresh = std::make_unique<PairSeconds>(sets.count());
  int count = workers[level];
  size_t column = static_cast<size_t>(sets.count()) * count * sizeof(double);
  std::vector<int> sources = {0};
  size_t width = 1;
  std::optional<StoredPrices> stored;
  if (need(level) == Need::all) {
    sources = usefulSources(level);
    width = std::clamp<size_t>(kCacheBytes / column, 16, 1 << 16);
  }
  if (width < sources.size())
    stored = storePrices(level, depth);
  for (size_t next = 0; next < sources.size(); next += width) {
    std::span<const int> some(&sources[next], std::min(width, sources.size() - next));
    Table table(level, depth, some, last(), count);
    table.stored = stored ? &*stored : nullptr;
    solveSources(table);
    for (int to = table.first + 1; to <= last(); ++to)
      for (size_t i = 0; i < some.size() && some[i] < to; ++i)
        fresh->at(some[i], to) = table.row(to, count)[i];
  }
  if (need(level) == Need::cross)
    solveToEnd(level, depth, *fresh);
  solved[{level, depth}] = std::move(fresh);
  return *solved[{level, depth}];
}

void Search::solveSources(Table &table) {
  std::optional<Below> levelBelow;
  if (table.level)
    levelBelow = below(table.level, table.depth);
  Prices prices(table.workers, cost.byUsed());
  for (int to = table.first + 1; to <= table.target; ++to)
    for (size_t which = inside[to].size(); which-- > 0 && inside[to][which] >= table.first;) {
      int from = inside[to][which];
      if (table.stored && !table.isSource(from)) {
        addStored(table, from, to, which);
        continue;
      }
      cost.price({table.level, from, to}, table.depth, levelBelow ? &*levelBelow : nullptr,
                 choices[table.level], prices);
      addPair(table, from, to, prices);
    }
}

/// Cut by cut, each carried to those behind it that can be part of something below the limit.
void Search::solveFromOne(Table &table) {
  std::optional<Below> levelBelow;
  if (table.level)
    levelBelow = below(table.level, table.depth);
  Prices prices(table.workers, cost.byUsed());
  int target = table.target;
  double seconds = workerSeconds(table.level);
  std::vector<int> behind(target + 1); ///< workers that the rest takes
  for (int to = 0; to <= target; ++to)
    behind[to] = workersFor(work[target] - work[to], seconds);
  for (int from = table.first; from < target; ++from) {
    int used = from == table.first ? 0 : leastUsed(table, from);
    if (used < 0 || !sets.nested(from, target))
      continue;
    for (int to = from + 1; to <= target; ++to) {
      int own = workersFor(work[to] - work[from], seconds);
      if (used + own > table.workers)
        break;
      if (used + own + behind[to] > table.workers || !sets.nested(from, to) ||
          !sets.nested(to, target))
        continue;
      cost.price({table.level, from, to}, table.depth, levelBelow ? &*levelBelow : nullptr,
                 choices[table.level], prices);
      addPair(table, from, to, prices);
    }
  }
}

/// Of one source: the least number of workers that reach a cut with something below the limit, and
/// leave enough for the rest; -1: none.
int Search::leastUsed(Table &table, int cut) const {
  double rest = work[table.target] - work[cut], most = priceLimit(table.level);
  int behind = workersFor(rest, workerSeconds(table.level));
  int least = -1;
  for (int used = table.workers; used > 0; --used) {
    double &value = table.row(cut, used)[0];
    if (value >= most || used + behind > table.workers)
      value = kNever;
    if (value < kNever)
      least = used;
  }
  return least;
}

/// None where the prices are too many to be kept.
std::optional<Search::StoredPrices> Search::storePrices(int level, double depth) {
  StoredPrices stored;
  size_t spans = 0;
  for (const std::vector<int> &cuts : inside) {
    stored.starts.push_back(spans);
    spans += cuts.size();
  }
  for (int replicas : choices[level])
    stored.width += cost.byUsed() ? workers[level] - replicas : 1;
  if (spans * stored.width * sizeof(double) > kMostStoredBytes)
    return std::nullopt;
  stored.values.reserve(spans * stored.width);
  std::optional<Below> levelBelow;
  if (level)
    levelBelow = below(level, depth);
  Prices prices(workers[level], cost.byUsed());
  for (int to = 0; to <= last(); ++to) {
    stored.values.resize((stored.starts[to] + inside[to].size()) * stored.width);
    for (size_t which = inside[to].size(); which-- > 0;) {
      cost.price({level, inside[to][which], to}, depth, levelBelow ? &*levelBelow : nullptr,
                 choices[level], prices);
      double *entry = &stored.values[(stored.starts[to] + which) * stored.width];
      for (int replicas : choices[level])
        for (int used = replicas + 1; used <= workers[level]; ++used)
          if (cost.byUsed() || used == replicas + 1)
            *entry++ = prices.stage(replicas, used);
    }
  }
  return stored;
}

void Search::addStored(Table &table, int from, int to, size_t which) {
  const StoredPrices &stored = *table.stored;
  const double *entry = &stored.values[(stored.starts[to] + which) * stored.width];
  double most = priceLimit(table.level);
  int sources = table.sourcesBefore[from];
  for (int replicas : choices[table.level]) {
    for (int used = replicas + 1; used <= table.workers; ++used) {
      if (*entry < most)
        improveRow(table.row(to, used), table.row(from, used - replicas), *entry, sources);
      entry += cost.byUsed();
    }
    entry += !cost.byUsed();
  }
}

void Search::addPair(Table &table, int from, int to, Prices &prices) {
  int sources = table.sourcesBefore[from];
  if (table.isSource(from))
    for (int replicas : choices[table.level]) {
      double &best = table.row(to, replicas)[sources];
      best = std::min(best, prices.alone(replicas));
    }
  double most = priceLimit(table.level);
  if (sources == 1 && table.count == 1 && !cost.byUsed()) {
    // Of one source the values by workers used follow each other in memory.
    for (int replicas : choices[table.level])
      if (replicas < table.workers && prices.stage(replicas, table.workers) < most)
        improveRow(table.row(to, replicas + 1), table.row(from, 1),
                   prices.stage(replicas, table.workers), table.workers - replicas);
    return;
  }
  for (int replicas : choices[table.level])
    for (int used = replicas + 1; sources > 0 && used <= table.workers; ++used) {
      double price = prices.stage(replicas, used);
      if (price < most)
        improveRow(table.row(to, used), table.row(from, used - replicas), price, sources);
    }
}

/// G(k, m): the slowest stage from cut k to the end on the last m workers, none of them alone.
void Search::solveToEnd(int level, double depth, PairSeconds &result) {
  int count = workers[level];
  double most = priceLimit(level);
  std::optional<Below> levelBelow;
  if (level)
    levelBelow = below(level, depth);
  Prices prices(count, cost.byUsed());
  std::vector<std::vector<double>> rest(sets.count(), std::vector<double>(count + 1, kNever));
  rest[last()][0] = 0;
  for (int to = last(); to > 0; --to) {
    if (std::ranges::min(rest[to]) >= most)
      continue;
    for (int from : inside[to]) {
      cost.price({level, from, to}, depth, levelBelow ? &*levelBelow : nullptr, choices[level],
                 prices);
      double &whole = result.at(from, last());
      for (int replicas : choices[level]) {
        whole = std::min(whole, std::max(prices.alone(replicas), rest[to][count - replicas]));
        for (int left = 0; left + replicas < count; ++left)
          if (double price = std::max(prices.stage(replicas, count - left), rest[to][left]);
              price < most)
            rest[from][left + replicas] = std::min(rest[from][left + replicas], price);
      }
    }
  }
}

double Search::solveWithin(double most) {
  limit = most;
  solution = std::make_shared<Table>(top(), 0, std::array{0}, last(), workers[top()]);
  solveFromOne(*solution);
  double found = solution->row(last(), workers[top()])[0];
  return found < limit ? found : kNever;
}

double Search::solve() {
  if (limit <= 0)
    return kNever;
  double most = limit, mean = work[last()] / workers[top()];
  // Pairs of a level below would have to be found anew.
  if (top() == 0)
    for (double least = kFirstLimit * mean; least < std::min(most, kLastLimit * mean);
         least *= kNextLimit)
      if (double found = solveWithin(least); found < kNever)
        return found;
  return solveWithin(most);
}

std::vector<StageGroup> Search::trace(int level, double depth, int from, int to) {
  int used = workers[level];
  std::shared_ptr<Table> table = solution;
  if (level < top()) {
    table = std::make_shared<Table>(level, depth, std::array{from}, to, used);
    solveFromOne(*table);
  }
  std::optional<Below> levelBelow;
  if (level)
    levelBelow = below(level, depth);
  Prices prices(used, cost.byUsed());
  std::vector<StageGroup> groups;
  auto cutAt = [&](int start, int replicas) {
    StageGroup group{replicas, {}, {}};
    if (level)
      group.groups = trace(
          level - 1, cost.depthBelow(level, depth, workers[level] - used, replicas), start, to);
    else
      group.units = sets.between(start, to);
    groups.insert(groups.begin(), std::move(group));
    to = start;
    used -= replicas;
  };
  // The last stage is found by asking again which one gives the value of the table.
  auto step = [&] {
    double value = table->row(to, used)[0];
    for (int start = to - 1; start >= from; --start) {
      if (!sets.nested(from, start) || !sets.nested(start, to))
        continue;
      cost.price({level, start, to}, depth, levelBelow ? &*levelBelow : nullptr, choices[level],
                 prices);
      for (int replicas : choices[level]) {
        if (start == from && replicas == used && prices.alone(replicas) == value)
          return cutAt(from, replicas), true;
        if (start > from && replicas < used &&
            std::max(table->row(start, used - replicas)[0], prices.stage(replicas, used)) == value)
          return cutAt(start, replicas), true;
      }
    }
    return false;
  };
  while (to > from && step())
    ;
  return groups;
}

} // namespace pdc
