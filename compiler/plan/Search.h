#pragma once

#include "compiler/plan/DownSets.h"
#include "compiler/plan/Partition.h"

#include <limits>
#include <map>
#include <memory>

namespace pdc {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What lies between two cuts, at a level of the topology (0: the lowest).
struct Span {
  int level = 0, from = 0, to = 0;
};

/// Seconds of one minibatch for every pair of nested cuts, when a component of a level has them.
class PairSeconds {
public:
  explicit PairSeconds(int cuts) : values(static_cast<size_t>(cuts) * (cuts - 1) / 2, kNever) {}
  /// `from` < `to`.
  double &at(int from, int to) { return values[static_cast<size_t>(to) * (to - 1) / 2 + from]; }
  double *upTo(int to) { return values.data() + static_cast<size_t>(to) * (to - 1) / 2; }

private:
  std::vector<double> values;
};

/// What a level asks of the one below. By replicas of the stage and by workers of the level used up
/// to and with it where the cost model looks at the minibatches in flight behind a stage.
class Below {
public:
  Below(int workers, bool byUsed)
      : stride(byUsed ? workers + 1 : 0), tables(byUsed ? size_t(stride) * stride : 1) {}
  PairSeconds *&table(int replicas, int used) {
    return tables[stride ? static_cast<size_t>(replicas) * stride + used : 0];
  }
  double seconds(const Span &span, int replicas, int used) {
    return table(replicas, used)->at(span.from, span.to);
  }

private:
  int stride;
  std::vector<PairSeconds *> tables;
};

/// Seconds of a span as one stage, filled in by a cost model.
class Prices {
public:
  Prices(int workers, bool byUsed)
      : workers(workers), byUsed(byUsed), stride(byUsed ? workers + 1 : 0), first(workers + 1),
        later(byUsed ? size_t(stride) * stride : workers + 1) {}
  /// As the first stage, or all there is, on so many replicas.
  double &alone(int replicas) { return first[replicas]; }
  /// As a stage behind another one, `used` workers up to and with it.
  double &stage(int replicas, int used) {
    return later[stride ? static_cast<size_t>(replicas) * stride + used : replicas];
  }

  const int workers;
  const bool byUsed; ///< else `used` makes no difference

private:
  int stride;
  std::vector<double> first, later;
};

/// A cost model: what a stage costs. Infinite: it does not fit the memory.
class StageCost {
public:
  virtual ~StageCost() = default;

  /// Whether prices depend on the workers behind a stage.
  virtual bool byUsed() const = 0;

  /// `depth`: minibatches in flight behind the component; `below`: the level below, null at the
  /// lowest. Only the numbers of replicas listed are asked for.
  virtual void price(const Span &span, double depth, Below *below, std::span<const int> replicas,
                     Prices &prices) = 0;

  /// Minibatches in flight behind each component of a stage with so many replicas, when `left`
  /// workers of the level follow it.
  virtual double depthBelow(int level, double depth, int left, int replicas) const = 0;

  /// Worker-seconds of one minibatch that any plan spends in front of a cut: no fewer in front of a
  /// later one.
  virtual double leastSeconds(int cut) const = 0;
};

/// Finds how to spread the units over the workers of all levels so that the slowest stage is as
/// fast as can be. With A(i, j, m) for the slowest stage between cuts i and j on m workers of a
/// level, alone(i, j, m) when they are one stage, and stage(k, j, r) for a last stage on r of them,
///
///     A(i, j, m) = min(alone(i, j, m), min over k, r of max(A(i, k, m - r), stage(k, j, r))),
///
/// and the level above takes A(i, j, all workers) for the seconds of a component. This is exact
/// over the cuts given: the cost of a stage depends on its two cuts, its replicas and how many
/// workers stand behind it, never on where the stages in front of it are cut, and max is monotone
/// in A. What keeps it fast changes no result:
///
/// - For a fixed (k, j) the inner step is the same for all i: one pass over contiguous memory, in
///   slices that stay in the cache. Cuts are sorted so that i < k < j.
/// - Solutions at or above `limit` (that of a plan already known) cannot better it: prices from
///   limit x workers above are skipped. A stage within the limit has a least number of workers for
///   its work; states and stages that leave too few for the work in front or behind are not looked
///   at. So a single level is first searched a little above the mean, then above that.
/// - A highest level of two workers has only two components: one level below needs A from the first
///   cut, by this recurrence, and to the last one, by its mirror image from the end.
///
/// Above 32 workers of one level, replicas are tried in steps of at most an eighth.
class Search {
public:
  Search(const DownSets &sets, StageCost &cost, std::vector<int> workers, bool straight,
         double limit = kNever);

  /// The slowest stage of the best plan below the limit; infinite when there is none.
  double solve();
  /// The plan itself, after `solve` found one.
  std::vector<StageGroup> trace() { return trace(top(), 0, 0, last()); }

  /// Inner steps that so many cuts take at most.
  static double effort(double cuts, const std::vector<int> &workers, bool straight);
  /// Whether all numbers of replicas are tried.
  static bool triesAllReplicas(const std::vector<int> &workers, bool straight);

private:
  enum class Need { corner, cross, all }; ///< which pairs of cuts a level is solved for
  struct Table;
  struct StoredPrices;

  int top() const { return static_cast<int>(workers.size()) - 1; }
  int last() const { return sets.count() - 1; }
  Need need(int level) const;
  double priceLimit(int level) const;
  double workerSeconds(int level) const;
  Below below(int level, double depth);
  PairSeconds &pairs(int level, double depth);
  std::vector<int> usefulSources(int level) const;
  double solveWithin(double most);
  void solveFromOne(Table &table);
  void solveSources(Table &table);
  std::optional<StoredPrices> storePrices(int level, double depth);
  void addPair(Table &table, int from, int to, Prices &prices);
  void addStored(Table &table, int from, int to, size_t which);
  int leastUsed(Table &table, int cut) const;
  void solveToEnd(int level, double depth, PairSeconds &result);
  std::vector<StageGroup> trace(int level, double depth, int from, int to);

  const DownSets &sets;
  StageCost &cost;
  std::vector<int> workers; ///< by level, lowest first
  double limit;
  std::vector<std::vector<int>> inside;  ///< by cut: those nested in it, ascending; for all pairs
  std::vector<std::vector<int>> choices; ///< by level: numbers of replicas
  std::vector<double> work;              ///< by cut: worker-seconds in front of it
  std::map<std::pair<int, double>, std::unique_ptr<PairSeconds>> solved;
  std::shared_ptr<Table> solution; ///< of the highest level
};

} // namespace pdc
