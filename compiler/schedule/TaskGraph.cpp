#include "compiler/schedule/TaskGraph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>

namespace pdc {

namespace {

bool isClosing(const Step &step) {
  return step.kind != StepKind::run || step.task.phase == Phase::update;
}

/// What a run needs of its own rank: the first half of what it ends.
std::optional<Phase> precededBy(Phase phase) {
  switch (phase) {
  case Phase::backward:
  case Phase::backwardInput:
    return Phase::forward;
  case Phase::backwardWeight:
    return Phase::backwardInput;
  default:
    return std::nullopt;
  }
}

} // namespace

TaskGraph::TaskGraph(const Schedule &schedule, std::span<const Edge> edges,
                     const PlayCosts &costs) {
  addTasks(schedule, costs);
  addMessages(schedule, edges, costs);
  clock.resize(rows.size());
  position.resize(rows.size());
  ready.resize(tasks.size());
  missing.resize(tasks.size());
  linkFree.resize(linkCount);
}

void TaskGraph::addTasks(const Schedule &schedule, const PlayCosts &costs) {
  rows.resize(schedule.ranks.size());
  double longest = 0, reduction = 0;
  for (double seconds : costs.reductions)
    reduction = std::max(reduction, seconds);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::map<std::pair<int, Phase>, int> series;
    double updates = 0;
    for (const Step &step : schedule.ranks[rank].warmUp) {
      double seconds =
          step.kind == StepKind::run ? costs.stages[step.task.stage].of(step.task.phase) : 0;
      if (isClosing(step)) {
        updates += seconds;
        continue;
      }
      auto [entry, isNew] =
          series.insert({{step.task.stage, step.task.phase}, static_cast<int>(series.size())});
      rows[rank].push_back(static_cast<int>(tasks.size()));
      tasks.push_back({step.task, static_cast<int>(rank), entry->second, 0, seconds, {}});
    }
    longest = std::max(longest, updates);
  }
  closing = reduction + costs.allReduce + longest;
}

void TaskGraph::addMessages(const Schedule &schedule, std::span<const Edge> edges,
                            const PlayCosts &costs) {
  std::map<Task, int> numbers;
  for (size_t i = 0; i < tasks.size(); ++i)
    numbers[tasks[i].task] = static_cast<int>(i);
  std::vector<std::vector<const Edge *>> leaving(costs.stages.size());
  for (const Edge &edge : edges)
    leaving[edge.fromStage].push_back(&edge);
  std::map<std::pair<int, int>, int> links;
  auto send = [&](Node &from, Task task, double seconds) {
    auto found = numbers.find(task);
    if (found == numbers.end())
      return;
    Node &to = tasks[found->second];
    bool stays = from.rank == to.rank;
    int link = -1;
    if (!stays)
      link = links.insert({{from.rank, to.rank}, static_cast<int>(links.size())}).first->second;
    from.messages.push_back({found->second, link, stays ? 0 : seconds});
    ++to.inputs;
  };
  for (Node &node : tasks) {
    Task task = node.task;
    for (Phase later : {Phase::backward, Phase::backwardInput, Phase::backwardWeight})
      if (precededBy(later) == task.phase)
        send(node, {task.stage, later, task.microbatch}, 0);
    for (const Edge *edge : leaving[task.stage]) {
      if (!produces(task, *edge))
        continue;
      double seconds = costs.edges.empty() ? 0 : costs.edges[edge->id];
      send(node, {edge->toStage, edge->consumer, task.microbatch}, seconds);
      if (edge->consumer == Phase::backward)
        send(node, {edge->toStage, Phase::backwardInput, task.microbatch}, seconds);
    }
  }
  linkCount = static_cast<int>(links.size());
}

void TaskGraph::start(int number) {
  Node &node = tasks[number];
  double &now = clock[node.rank];
  now = std::max(now, ready[number]) + node.seconds;
  for (const Message &message : node.messages) {
    double arrival = now;
    if (message.link >= 0) {
      double &free = linkFree[message.link];
      arrival = free = std::max(now, free) + message.seconds;
    }
    ready[message.to] = std::max(ready[message.to], arrival);
    --missing[message.to];
  }
}

double TaskGraph::seconds(const RowOrder &order) {
  std::ranges::fill(clock, 0);
  std::ranges::fill(linkFree, 0);
  std::ranges::fill(ready, 0);
  std::ranges::fill(position, 0);
  for (size_t i = 0; i < tasks.size(); ++i)
    missing[i] = tasks[i].inputs;
  size_t left = tasks.size();
  for (bool progress = true; progress && left;) {
    progress = false;
    for (size_t rank = 0; rank < order.size(); ++rank) {
      size_t &next = position[rank];
      while (next < order[rank].size() && missing[order[rank][next]] == 0) {
        start(order[rank][next++]);
        --left;
        progress = true;
      }
    }
  }
  if (left)
    return std::numeric_limits<double>::infinity();
  return *std::ranges::max_element(clock) + closing;
}

double TaskGraph::bound() const {
  size_t count = tasks.size();
  std::vector<double> head(count), tail(count);
  std::vector<int> waits(count), sorted;
  for (size_t i = 0; i < count; ++i)
    if ((waits[i] = tasks[i].inputs) == 0)
      sorted.push_back(static_cast<int>(i));
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Node &node = tasks[sorted[i]];
    for (const Message &message : node.messages) {
      head[message.to] =
          std::max(head[message.to], head[sorted[i]] + node.seconds + message.seconds);
      if (--waits[message.to] == 0)
        sorted.push_back(message.to);
    }
  }
  for (int number : sorted | std::views::reverse)
    for (const Message &message : tasks[number].messages)
      tail[number] =
          std::max(tail[number], message.seconds + tasks[message.to].seconds + tail[message.to]);
  double most = 0;
  for (const std::vector<int> &row : rows) {
    double first = std::numeric_limits<double>::infinity(), last = first, work = 0;
    for (int number : row) {
      first = std::min(first, head[number]);
      last = std::min(last, tail[number]);
      work += tasks[number].seconds;
      most = std::max(most, head[number] + tasks[number].seconds + tail[number]);
    }
    if (!row.empty())
      most = std::max(most, first + work + last);
  }
  return most + closing;
}

Schedule TaskGraph::withRows(const Schedule &schedule, const RowOrder &order) const {
  Schedule result = schedule;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    std::vector<Step> &steps = result.ranks[rank].warmUp;
    auto closes = std::ranges::find_if(steps, isClosing);
    std::vector<Step> ordered;
    for (int number : order[rank])
      ordered.push_back({StepKind::run, tasks[number].task});
    ordered.insert(ordered.end(), closes, steps.end());
    steps = std::move(ordered);
  }
  return result;
}

Schedule splitBackward(const Schedule &schedule) {
  Schedule result = schedule;
  for (RankRows &rows : result.ranks) {
    std::vector<Step> steps;
    for (Step step : rows.warmUp) {
      bool whole = step.kind == StepKind::run && step.task.phase == Phase::backward;
      if (whole)
        step.task.phase = Phase::backwardInput;
      steps.push_back(step);
      step.task.phase = Phase::backwardWeight;
      if (whole)
        steps.push_back(step);
    }
    rows.warmUp = std::move(steps);
  }
  return result;
}

} // namespace pdc
