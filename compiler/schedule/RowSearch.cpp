#include "compiler/schedule/RowSearch.h"

#include <algorithm>
#include <limits>
#include <random>

namespace pdc {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool isForward(const TaskGraph::Node &node) { return node.task.phase == Phase::forward; }

/// The stages' limits on what is between forward and the end of backward, looked at on one rank.
class InFlight {
public:
  InFlight(const std::vector<int> &most, size_t stages) : most(most), held(stages) {}

  bool fits(const TaskGraph::Node &node) const {
    return most.empty() || !isForward(node) || held[node.task.stage] < most[node.task.stage];
  }
  void run(const TaskGraph::Node &node) {
    Phase phase = node.task.phase;
    held[node.task.stage] += phase == Phase::forward;
    held[node.task.stage] -= phase == Phase::backward || phase == Phase::backwardWeight;
  }

private:
  const std::vector<int> &most;
  std::vector<int> held;
};

/// What a rank takes when several runs could start.
struct Rule {
  bool forwardFirst = false; ///< else what the stages in front wait for
  /// Part of a run's seconds that a rank waits for a more urgent one.
  double patience = 0;
  std::vector<int> most; ///< in flight, by stage

  int urgency(Phase phase) const {
    if (phase == Phase::backwardWeight)
      return 2;
    return (phase == Phase::forward) != forwardFirst ? 1 : 0;
  }
};

/// Ranks at work under a rule.
class ListScheduler {
public:
  ListScheduler(const TaskGraph &graph, const Rule &rule, size_t stages)
      : graph(graph), rule(rule), ready(graph.nodes().size()), linkFree(graph.links()) {
    for (const TaskGraph::Node &node : graph.nodes())
      missing.push_back(node.inputs);
    for (const std::vector<int> &row : graph.order()) {
      Rank &rank = ranks.emplace_back(Rank{{}, {}, 0, InFlight(rule.most, stages)});
      for (int number : row) {
        size_t series = graph.nodes()[number].series;
        rank.series.resize(std::max(rank.series.size(), series + 1));
        rank.series[series].push_back(number);
      }
      rank.next.resize(rank.series.size());
    }
    order.resize(ranks.size());
  }

  /// Empty rows where the rule stands still.
  RowOrder make() {
    for (size_t left = graph.nodes().size(); left; --left) {
      int chosen = -1;
      double first = kNever;
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        if (double start = earliest(ranks[rank]); start < first) {
          first = start;
          chosen = static_cast<int>(rank);
        }
      if (chosen < 0)
        return {};
      start(chosen, choose(ranks[chosen], first));
    }
    return std::move(order);
  }

private:
  struct Rank {
    std::vector<std::vector<int>> series;
    std::vector<size_t> next;
    double clock;
    InFlight held;
  };

  /// When the next run of a series can start.
  double startOf(const Rank &rank, size_t series) const {
    if (rank.next[series] == rank.series[series].size())
      return kNever;
    int number = rank.series[series][rank.next[series]];
    if (missing[number] || !rank.held.fits(graph.nodes()[number]))
      return kNever;
    return std::max(rank.clock, ready[number]);
  }

  double earliest(const Rank &rank) const {
    double first = kNever;
    for (size_t series = 0; series < rank.series.size(); ++series)
      first = std::min(first, startOf(rank, series));
    return first;
  }

  const TaskGraph::Node &nextOf(const Rank &rank, size_t series) const {
    return graph.nodes()[rank.series[series][rank.next[series]]];
  }

  /// The most urgent series that can start at `first` or is worth waiting for.
  size_t choose(const Rank &rank, double first) const {
    auto isBefore = [&](size_t a, size_t b) {
      const TaskGraph::Node &left = nextOf(rank, a), &right = nextOf(rank, b);
      int urgent = rule.urgency(left.task.phase), other = rule.urgency(right.task.phase);
      if (urgent != other)
        return urgent < other;
      if (startOf(rank, a) != startOf(rank, b))
        return startOf(rank, a) < startOf(rank, b);
      return left.task.stage > right.task.stage;
    };
    auto best = [&](double latest) {
      size_t found = rank.series.size();
      for (size_t series = 0; series < rank.series.size(); ++series)
        if (startOf(rank, series) <= latest &&
            (found == rank.series.size() || isBefore(series, found)))
          found = series;
      return found;
    };
    size_t now = best(first);
    return best(first + rule.patience * nextOf(rank, now).seconds);
  }

  void start(int number, size_t series) {
    Rank &rank = ranks[number];
    int run = rank.series[series][rank.next[series]++];
    const TaskGraph::Node &node = graph.nodes()[run];
    order[number].push_back(run);
    rank.held.run(node);
    rank.clock = std::max(rank.clock, ready[run]) + node.seconds;
    for (const TaskGraph::Message &message : node.messages) {
      double arrival = rank.clock;
      if (message.link >= 0) {
        double &free = linkFree[message.link];
        arrival = free = std::max(arrival, free) + message.seconds;
      }
      ready[message.to] = std::max(ready[message.to], arrival);
      --missing[message.to];
    }
  }

  const TaskGraph &graph;
  const Rule &rule;
  std::vector<Rank> ranks;
  std::vector<double> ready, linkFree;
  std::vector<int> missing;
  RowOrder order;
};

/// From what 1F1B holds to what fills the time until the first gradient is back, and no limit but
/// the memory's.
std::vector<Rule> rulesFor(const Schedule &seed, const RowSearchRequest &request) {
  int stages = static_cast<int>(request.costs.stages.size());
  const std::vector<int> &most = request.most;
  int microbatches = static_cast<int>(seed.microbatches);
  std::vector<Rule> rules;
  for (double depth : {1.0, 1.25, 1.5, 2.0, 1e9})
    for (double patience : {0.0, 0.5, 1.0})
      for (bool forwardFirst : {false, true}) {
        Rule rule{forwardFirst, patience, {}};
        for (int stage = 0; stage < stages; ++stage) {
          double own = std::min<double>(microbatches, depth * (stages - stage) + (depth > 1));
          int limit = std::max(1, static_cast<int>(own));
          rule.most.push_back(most.empty() ? limit : std::min(limit, most[stage]));
        }
        rules.push_back(rule);
      }
  return rules;
}

/// Moves single runs as long as the minibatch does not get longer: of equal ones that whose ranks
/// end sooner.
class Improvement {
public:
  Improvement(TaskGraph &graph, const std::vector<int> &most, size_t stages, RowOrder order)
      : graph(graph), most(most), stages(stages), order(std::move(order)) {
    value = measure();
  }

  const RowOrder &rows() const { return order; }
  double seconds() const { return value.first; }

  void run(int64_t moves) {
    std::mt19937 random(1);
    auto draw = [&](size_t count) { return static_cast<size_t>(random() % count); };
    double bound = graph.bound();
    for (int64_t move = 0; move < moves && value.first > bound * (1 + 1e-9); ++move) {
      std::vector<int> &row = order[draw(order.size())];
      if (row.size() < 2)
        continue;
      size_t from = draw(row.size());
      size_t reach = 1 + draw(4 * order.size() + 2);
      size_t to = draw(2) ? std::min(from + reach, row.size() - 1) : from - std::min(from, reach);
      if (from != to)
        attempt(row, from, to);
    }
  }

private:
  using Value = std::pair<double, double>;

  Value measure() {
    double seconds = graph.seconds(order), sum = 0;
    for (double end : graph.ends())
      sum += end;
    return {seconds, sum};
  }

  void attempt(std::vector<int> &row, size_t from, size_t to) {
    if (passesOwnSeries(row, from, to))
      return;
    shift(row, from, to);
    if (Value next = fits(row) ? measure() : Value{kNever, 0}; next <= value)
      value = next;
    else
      shift(row, to, from);
  }

  bool passesOwnSeries(const std::vector<int> &row, size_t from, size_t to) const {
    int series = graph.nodes()[row[from]].series;
    for (size_t i = std::min(from, to); i <= std::max(from, to); ++i)
      if (i != from && graph.nodes()[row[i]].series == series)
        return true;
    return false;
  }

  static void shift(std::vector<int> &row, size_t from, size_t to) {
    if (from < to)
      std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
    else
      std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
  }

  bool fits(const std::vector<int> &row) const {
    InFlight held(most, stages);
    for (int number : row) {
      if (!held.fits(graph.nodes()[number]))
        return false;
      held.run(graph.nodes()[number]);
    }
    return true;
  }

  TaskGraph &graph;
  const std::vector<int> &most;
  size_t stages;
  RowOrder order;
  Value value;
};

constexpr std::string_view kSearched = "-searched";

/// One form of the backward pass: list schedules, and the best few of them improved.
struct Candidate {
  double seconds;
  RowOrder rows;
};

constexpr size_t kImproved = 3;

Candidate searchOrders(TaskGraph &graph, const Schedule &seed, const RowSearchRequest &request) {
  size_t stages = request.costs.stages.size();
  std::vector<Candidate> found = {{graph.seconds(graph.order()), graph.order()}};
  auto add = [&](RowOrder rows) {
    if (!rows.empty())
      found.push_back({graph.seconds(rows), std::move(rows)});
  };
  for (const Rule &rule : rulesFor(seed, request))
    add(ListScheduler(graph, rule, stages).make());
  std::ranges::stable_sort(found, {}, &Candidate::seconds);
  std::vector<double> tried;
  Candidate best = found.front();
  for (const Candidate &candidate : found) {
    if (tried.size() == kImproved)
      break;
    if (std::ranges::find(tried, candidate.seconds) != tried.end())
      continue;
    tried.push_back(candidate.seconds);
    Improvement improvement(graph, request.most, stages, candidate.rows);
    improvement.run(request.effort / static_cast<int64_t>(2 * kImproved * graph.nodes().size()));
    if (improvement.seconds() < best.seconds)
      best = {improvement.seconds(), improvement.rows()};
  }
  return best;
}

} // namespace

std::string nameOfSeed(std::string_view name) {
  if (name.ends_with(kSearched))
    name.remove_suffix(kSearched.size());
  return std::string(name);
}

Schedule searchRows(const Schedule &seed, const RowSearchRequest &request) {
  TaskGraph whole(seed, request.edges, request.costs);
  double best = whole.seconds(whole.order());
  Schedule result = seed;
  std::vector<Schedule> forms = {seed};
  if (!splitsBackward(seed))
    forms.push_back(splitBackward(seed));
  for (const Schedule &form : forms) {
    TaskGraph graph(form, request.edges, request.costs);
    Candidate found = searchOrders(graph, form, request);
    if (found.seconds >= best * (1 - 1e-9))
      continue;
    best = found.seconds;
    result = graph.withRows(form, found.rows);
    result.name = seed.name + std::string(kSearched);
  }
  return result;
}

} // namespace pdc
