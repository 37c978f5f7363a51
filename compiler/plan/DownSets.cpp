#include "compiler/plan/DownSets.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_set>

namespace pdc {

namespace {

using Bits = std::vector<uint64_t>;

bool hasBit(std::span<const uint64_t> bits, int unit) { return bits[unit / 64] >> (unit % 64) & 1; }
void setBit(Bits &bits, int unit) { bits[unit / 64] |= uint64_t(1) << (unit % 64); }
void unite(Bits &bits, const Bits &other) {
  for (size_t word = 0; word < bits.size(); ++word)
    bits[word] |= other[word];
}
int unitsIn(std::span<const uint64_t> bits) {
  return std::accumulate(bits.begin(), bits.end(), 0,
                         [](int sum, uint64_t word) { return sum + std::popcount(word); });
}

struct BitsHash {
  size_t operator()(const Bits &bits) const {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char *>(bits.data()), bits.size() * sizeof(uint64_t)});
  }
};

/// Who reads whose values, and what each unit needs before it.
struct Order {
  explicit Order(const PlanGraph &graph);

  int units;
  std::vector<std::vector<int>> producers, consumers; ///< by unit, ascending
  std::vector<Bits> closure;                          ///< the unit and all it depends on
  std::vector<bool> anchored;                         ///< the first unit or behind it
};

Order::Order(const PlanGraph &graph) : units(static_cast<int>(graph.units.size())) {
  std::vector<std::set<int>> readFrom(units);
  for (const PlanValue &value : graph.values)
    for (int consumer : value.consumers)
      readFrom[consumer].insert(value.producer);
  consumers.resize(units);
  closure.assign(units, Bits((units + 63) / 64));
  anchored.assign(units, false);
  for (int unit = 0; unit < units; ++unit) {
    producers.emplace_back(readFrom[unit].begin(), readFrom[unit].end());
    setBit(closure[unit], unit);
    anchored[unit] = unit == 0;
    for (int producer : producers[unit]) {
      consumers[producer].push_back(unit);
      unite(closure[unit], closure[producer]);
      anchored[unit] = anchored[unit] || anchored[producer];
    }
  }
}

/// Units of `among` that have a unit of `among` beside them, neither before nor behind.
std::vector<bool> besideOthers(const Order &order, const std::vector<bool> &among) {
  Bits mask(order.closure.empty() ? 0 : order.closure[0].size());
  for (int unit = 0; unit < order.units; ++unit)
    if (among[unit])
      setBit(mask, unit);
  std::vector<int> related(order.units);
  for (int unit = 0; unit < order.units; ++unit)
    for (size_t word = 0; among[unit] && word < mask.size(); ++word)
      for (uint64_t rest = order.closure[unit][word] & mask[word]; rest; rest &= rest - 1) {
        int before = static_cast<int>(word) * 64 + std::countr_zero(rest);
        ++related[unit];
        related[before] += before != unit;
      }
  std::vector<bool> beside(order.units);
  for (int unit = 0; unit < order.units; ++unit)
    beside[unit] = among[unit] && related[unit] < unitsIn(mask);
  return beside;
}

/// The units whose closures make up the family in which a chain inside a parallel branch is whole.
std::vector<bool> endsOfBranchChains(const Order &order) {
  std::vector<bool> beside = besideOthers(order, order.anchored);
  std::vector<bool> ends(order.units, true);
  for (int unit = 0; unit < order.units; ++unit) {
    if (!beside[unit] || order.consumers[unit].size() != 1)
      continue;
    int next = order.consumers[unit][0];
    if (beside[next] && order.producers[next].size() == 1)
      ends[unit] = false;
  }
  return ends;
}

/// The nearest generators that a unit depends on.
void addGeneratorsBefore(const Order &order, int unit, const std::vector<bool> &generators,
                         std::set<int> &found) {
  for (int producer : order.producers[unit])
    if (generators[producer])
      found.insert(producer);
    else
      addGeneratorsBefore(order, producer, generators, found);
}

struct Family {
  std::vector<bool> generators; ///< sets are unions of closures of these
  /// A set grows only by a unit that reads from it, whatever else the unit needs; from the first
  /// unit on.
  bool anchored;
};

struct Generator {
  int unit;
  std::vector<int> needs; ///< the nearest generators it depends on
};

std::vector<Generator> listGenerators(const Order &order, const Family &family) {
  std::vector<Generator> list;
  for (int unit = 0; unit < order.units; ++unit) {
    if (!family.generators[unit])
      continue;
    std::set<int> before;
    addGeneratorsBefore(order, unit, family.generators, before);
    list.push_back({unit, {before.begin(), before.end()}});
  }
  return list;
}

/// All sets of a family, and the set of all units. False when `fits` says no.
bool uniteClosures(const Order &order, const Family &family, const std::function<bool(int)> &fits,
                   DownSets &sets) {
  std::vector<Generator> list = listGenerators(order, family);
  std::unordered_set<Bits, BitsHash> seen;
  std::vector<const Bits *> queue;
  auto reach = [&](Bits bits) {
    auto [position, isNew] = seen.insert(std::move(bits));
    if (isNew)
      queue.push_back(&*position);
  };
  reach(Bits(sets.words));
  for (size_t next = 0; next < queue.size(); ++next) {
    if (!fits(static_cast<int>(queue.size())))
      return false;
    const Bits &bits = *queue[next];
    auto inside = [&](int unit) { return hasBit(bits, unit); };
    auto follows = [&](const Generator &generator) {
      if (!family.anchored)
        return std::ranges::all_of(generator.needs, inside);
      return std::ranges::any_of(generator.needs, inside) ||
             (next == 0 && generator.needs.empty() && hasBit(order.closure[generator.unit], 0));
    };
    for (const Generator &generator : list) {
      if (inside(generator.unit) || !follows(generator))
        continue;
      Bits grown = bits;
      unite(grown, order.closure[generator.unit]);
      reach(std::move(grown));
    }
  }
  Bits everything(sets.words);
  for (int unit = 0; unit < order.units; ++unit)
    setBit(everything, unit);
  reach(everything);
  for (const Bits *bits : queue)
    sets.add(*bits);
  return true;
}

void addPrefixes(const std::vector<int> &units, DownSets &sets) {
  Bits bits(sets.words);
  sets.add(bits);
  for (int unit : units) {
    setBit(bits, unit);
    sets.add(bits);
  }
}

/// The order that keeps the bytes that cross its prefixes low, one unit at a time.
std::vector<int> narrowOrder(const Order &order, const PlanGraph &graph) {
  std::vector<std::vector<size_t>> made(order.units), read(order.units);
  std::vector<int> waiting(order.units);
  std::vector<size_t> readers(graph.values.size());
  for (size_t value = 0; value < graph.values.size(); ++value) {
    made[graph.values[value].producer].push_back(value);
    for (int consumer : graph.values[value].consumers)
      read[consumer].push_back(value);
    readers[value] = graph.values[value].consumers.size();
  }
  std::vector<int> ready, result;
  for (int unit = order.units - 1; unit >= 0; --unit)
    if ((waiting[unit] = static_cast<int>(order.producers[unit].size())) == 0)
      ready.push_back(unit);
  auto growth = [&](int unit) {
    int64_t bytes = 0;
    for (size_t value : made[unit])
      bytes += readers[value] ? graph.values[value].bytes : 0;
    for (size_t value : read[unit])
      bytes -= readers[value] == 1 ? graph.values[value].bytes : 0;
    return bytes;
  };
  while (!ready.empty()) {
    // The latest of equals: a branch is finished before another begins.
    auto best = std::ranges::min_element(ready.rbegin(), ready.rend(), {}, growth);
    int unit = *best;
    ready.erase(std::next(best).base());
    result.push_back(unit);
    for (size_t value : read[unit])
      --readers[value];
    for (int consumer : order.consumers[unit])
      if (--waiting[consumer] == 0)
        ready.push_back(consumer);
  }
  return result;
}

} // namespace

bool DownSets::nested(int inner, int outer) const {
  std::span<const uint64_t> a = at(inner), b = at(outer);
  for (int word = 0; word < words; ++word)
    if (a[word] & ~b[word])
      return false;
  return true;
}

std::vector<int> DownSets::between(int from, int to) const {
  std::vector<int> result;
  for (int unit = 0; unit < units; ++unit)
    if (has(to, unit) && !has(from, unit))
      result.push_back(unit);
  return result;
}

double DownSets::crossingBytes(int set, const PlanGraph &graph) const {
  double bytes = 0;
  for (const PlanValue &value : graph.values)
    if (has(set, value.producer) &&
        std::ranges::any_of(value.consumers, [&](int unit) { return !has(set, unit); }))
      bytes += static_cast<double>(value.bytes);
  return bytes;
}

std::vector<double> DownSets::seconds(const PlanGraph &graph) const {
  std::vector<double> result(count()), own;
  for (const PlanUnit &unit : graph.units)
    own.push_back(unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds +
                  unit.updateSeconds);
  for (int set = 0; set < count(); ++set)
    for (int word = 0; word < words; ++word)
      for (uint64_t rest = at(set)[word]; rest; rest &= rest - 1)
        result[set] += own[word * 64 + std::countr_zero(rest)];
  return result;
}

DownSets DownSets::sorted(const PlanGraph &graph) const {
  std::vector<double> work = seconds(graph);
  std::vector<int> sizes, order(count());
  std::iota(order.begin(), order.end(), 0);
  for (int set = 0; set < count(); ++set)
    sizes.push_back(unitsIn(at(set)));
  auto key = [&](int set) { return std::tuple(work[set], sizes[set]); };
  std::ranges::sort(order, [&](int a, int b) {
    return key(a) != key(b) ? key(a) < key(b) : std::ranges::lexicographical_compare(at(a), at(b));
  });
  DownSets result(units);
  result.all = all;
  for (int set : order)
    if (result.count() == 0 || !std::ranges::equal(result.at(result.count() - 1), at(set)))
      result.add(at(set));
  return result;
}

DownSets DownSets::thinned(int most, const PlanGraph &graph) const {
  if (count() <= most)
    return *this;
  std::vector<double> work = seconds(graph);
  DownSets result(units);
  result.add(at(0));
  int next = 1;
  for (int part = 1; part <= most - 2; ++part) {
    double end = work.back() * part / (most - 2);
    int best = -1;
    double least = 0;
    for (; next < count() - 1 && (work[next] <= end || part == most - 2); ++next) {
      double bytes = crossingBytes(next, graph);
      if (best < 0 || bytes < least) {
        best = next;
        least = bytes;
      }
    }
    if (best >= 0)
      result.add(at(best));
  }
  result.add(at(count() - 1));
  return result;
}

DownSets findDownSets(const PlanGraph &graph, const std::function<bool(int)> &fits) {
  Order order(graph);
  std::vector<bool> everyUnit(order.units, true);
  std::vector<int> own(order.units);
  std::iota(own.begin(), own.end(), 0);
  auto addOrders = [&](DownSets &sets) {
    addPrefixes(own, sets);
    addPrefixes(narrowOrder(order, graph), sets);
  };
  for (const Family &family : {Family{everyUnit, false}, Family{everyUnit, true},
                               Family{endsOfBranchChains(order), true}}) {
    DownSets sets(order.units);
    if (!uniteClosures(order, family, fits, sets))
      continue;
    sets.all = !family.anchored;
    if (!sets.all)
      addOrders(sets);
    return sets.sorted(graph);
  }
  DownSets sets(order.units);
  addOrders(sets);
  return sets.sorted(graph);
}

} // namespace pdc
