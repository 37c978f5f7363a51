#include "compiler/plan/Search.h"

#include <algorithm>
#include <numeric>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/// best = min(best, max(before, price)), element by element.
#if defined(__x86_64__)
__attribute__((target("avx2"))) void improveWide(double *best, const double *before, double price,
                                                 int count) {
  __m256d prices = _mm256_set1_pd(price);
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    __m256d slowest = _mm256_max_pd(_mm256_loadu_pd(before + i), prices);
    _mm256_storeu_pd(best + i, _mm256_min_pd(slowest, _mm256_loadu_pd(best + i)));
  }
  for (; i < count; ++i)
    best[i] = std::min(best[i], std::max(before[i], price));
}
const bool isWide = __builtin_cpu_supports("avx2");
#else
constexpr bool isWide = false;
void improveWide(double *, const double *, double, int) {}
#endif

void improve(double *best, const double *before, double price, int count) {
  if (isWide && count >= 4)
    return improveWide(best, before, price, count);
  for (int i = 0; i < count; ++i)
    best[i] = std::min(best[i], std::max(before[i], price));
}

/// Bytes of a table that the fast caches hold.
constexpr size_t kCacheBytes = size_t(3) << 20;
/// Bytes worth spending so that prices are asked for once.
constexpr size_t kMostStoredBytes = size_t(256) << 20;

} // namespace

/// A(i, j, m) of a level for the sources i from `low` to `high`, and j up to `target`.
struct Search::Table {
  Table(int level, double depth, int low, int high, int target, int workers)
      : level(level), depth(depth), low(low), high(high), target(target), workers(workers),
        values(static_cast<size_t>(target + 1) * workers * (high - low), kNever) {}

  double *row(int to, int used) {
    return &values[(static_cast<size_t>(to) * workers + used - 1) * (high - low)];
  }

  int level;
  double depth;
  int low, high, target, workers;
  std::vector<double> values;
  StoredPrices *stored = nullptr;
};

/// Prices of all spans of a level as later stages, in the order of `inside`.
struct Search::StoredPrices {
  std::vector<size_t> starts; ///< by cut: the first entry of the spans that end there
  size_t width = 0; ///< entries of a span: by replicas, and by workers used if they matter
  std::vector<double> values;
};

Search::Search(const DownSets &sets, StageCost &cost, std::vector<int> workers, bool straight,
               double limit)
    : sets(sets), cost(cost), workers(std::move(workers)), limit(limit), inside(sets.count()) {
  for (int to = 0; to < sets.count(); ++to)
    for (int from = 0; from < to; ++from)
      if (sets.nested(from, to))
        inside[to].push_back(from);
  for (int count : this->workers)
    choices.push_back(replicaChoices(count, straight));
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

PairSeconds &Search::pairs(int level, double depth) {
  std::unique_ptr<PairSeconds> &result = solved[{level, depth}];
  if (result)
    return *result;
  auto fresh = std::make_unique<PairSeconds>(sets.count());
  int count = workers[level];
  size_t column = static_cast<size_t>(sets.count()) * count * sizeof(double);
  int width = need(level) == Need::all
                  ? std::clamp(static_cast<int>(kCacheBytes / column), 16, 1 << 16)
                  : 1;
  int end = need(level) == Need::all ? last() : 1;
  std::optional<StoredPrices> stored;
  if (width < end)
    stored = storePrices(level, depth);
  for (int low = 0; low < end; low += width) {
    Table table(level, depth, low, std::min(end, low + width), last(), count);
    table.stored = stored ? &*stored : nullptr;
    solveSources(table);
    for (int to = low + 1; to <= last(); ++to)
      std::copy_n(table.row(to, count), std::min(to, table.high) - low, fresh->upTo(to) + low);
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
  for (int to = table.low + 1; to <= table.target; ++to) {
    if (to != table.target && !sets.nested(to, table.target))
      continue;
    for (size_t which = inside[to].size(); which-- > 0 && inside[to][which] >= table.low;) {
      int from = inside[to][which];
      if (table.stored && from >= table.high) {
        addStored(table, from, to, which);
        continue;
      }
      cost.price({table.level, from, to}, table.depth, levelBelow ? &*levelBelow : nullptr,
                 choices[table.level], prices);
      addPair(table, from, to, prices);
    }
    if (table.level == top())
      dropHopeless(table, to);
  }
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
  int sources = table.high - table.low;
  for (int replicas : choices[table.level]) {
    for (int used = replicas + 1; used <= table.workers; ++used) {
      if (*entry < most)
        improve(table.row(to, used), table.row(from, used - replicas), *entry, sources);
      entry += cost.byUsed();
    }
    entry += !cost.byUsed();
  }
}

void Search::addPair(Table &table, int from, int to, Prices &prices) {
  if (from < table.high)
    for (int replicas : choices[table.level]) {
      double &best = table.row(to, replicas)[from - table.low];
      best = std::min(best, prices.alone(replicas));
    }
  int sources = std::min(from, table.high) - table.low;
  double most = priceLimit(table.level);
  if (sources == 1 && table.high - table.low == 1 && !cost.byUsed()) {
    // Of one source the values by workers used follow each other in memory.
    for (int replicas : choices[table.level])
      if (replicas < table.workers && prices.stage(replicas, table.workers) < most)
        improve(table.row(to, replicas + 1), table.row(from, 1),
                prices.stage(replicas, table.workers), table.workers - replicas);
    return;
  }
  for (int replicas : choices[table.level])
    for (int used = replicas + 1; sources > 0 && used <= table.workers; ++used) {
      double price = prices.stage(replicas, used);
      if (price < most)
        improve(table.row(to, used), table.row(from, used - replicas), price, sources);
    }
}

void Search::dropHopeless(Table &table, int to) const {
  if (limit == kNever || table.low || table.high != 1)
    return;
  double lower = std::accumulate(workers.begin(), workers.end() - 1, 1.0, std::multiplies<>());
  double rest = to == last() ? 0 : cost.leastSeconds(to, last());
  for (int used = 1; used <= table.workers; ++used) {
    double &value = table.row(to, used)[0];
    // Rounding must not drop what is just below.
    if (value >= limit || rest > (table.workers - used) * lower * limit * (1 + 1e-9))
      value = kNever;
  }
}

/// G(k, m): the slowest stage from cut k to the end on the last m workers, none of them alone.
void Search::solveToEnd(int level, double depth, PairSeconds &result) {
  int count = workers[level];
  std::optional<Below> levelBelow;
  if (level)
    levelBelow = below(level, depth);
  Prices prices(count, cost.byUsed());
  std::vector<std::vector<double>> rest(sets.count(), std::vector<double>(count + 1, kNever));
  rest[last()][0] = 0;
  for (int to = last(); to > 0; --to)
    for (auto position = inside[to].rbegin(); position != inside[to].rend(); ++position) {
      int from = *position;
      cost.price({level, from, to}, depth, levelBelow ? &*levelBelow : nullptr, choices[level],
                 prices);
      double &whole = result.at(from, last());
      for (int replicas : choices[level]) {
        whole = std::min(whole, std::max(prices.alone(replicas), rest[to][count - replicas]));
        for (int left = 0; left + replicas < count; ++left)
          rest[from][left + replicas] =
              std::min(rest[from][left + replicas],
                       std::max(prices.stage(replicas, count - left), rest[to][left]));
      }
    }
}

double Search::solve() {
  Table table(top(), 0, 0, 1, last(), workers[top()]);
  solveSources(table);
  double found = table.row(last(), workers[top()])[0];
  return found < limit ? found : kNever;
}

std::vector<StageGroup> Search::trace(int level, double depth, int from, int to) {
  int used = workers[level];
  Table table(level, depth, from, from + 1, to, used);
  solveSources(table);
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
    double value = table.row(to, used)[0];
    for (auto start = inside[to].rbegin(); start != inside[to].rend() && *start >= from; ++start) {
      cost.price({level, *start, to}, depth, levelBelow ? &*levelBelow : nullptr, choices[level],
                 prices);
      for (int replicas : choices[level]) {
        if (*start == from && replicas == used && prices.alone(replicas) == value)
          return cutAt(from, replicas), true;
        if (*start > from && replicas < used &&
            std::max(table.row(*start, used - replicas)[0], prices.stage(replicas, used)) == value)
          return cutAt(*start, replicas), true;
      }
    }
    return false;
  };
  while (to > from && step())
    ;
  return groups;
}

} // namespace pdc
