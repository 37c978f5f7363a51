#pragma once

#include "compiler/schedule/Play.h"

namespace pdc {

/// Numbers of tasks in the order in which each rank runs them.
using RowOrder = std::vector<std::vector<int>>;

/// The runs of one minibatch of a synchronous schedule, numbered, with what each waits for. Played
/// in the overlapped model it takes the seconds that `play` says where no stage has replicas, a
/// hundred times as fast: a search over orders asks for nothing else. Sums over ranks and updates
/// close the minibatch and are not among its tasks.
class TaskGraph {
public:
  /// What a task gives to another; `link` counts the pairs of ranks, -1 stays on the rank.
  struct Message {
    int to, link;
    double seconds;
  };
  struct Node {
    Task task;
    int rank;
    int series; ///< of its rank: one per stage and phase, whose microbatches ascend
    int inputs; ///< messages it waits for
    double seconds;
    std::vector<Message> messages; ///< in the order in which they are sent
  };

  TaskGraph(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs);

  const std::vector<Node> &nodes() const { return tasks; }
  int links() const { return linkCount; }
  /// The order of the schedule that it was made from.
  const RowOrder &order() const { return rows; }

  /// Seconds of the minibatch with its closing; infinite when the order stands still.
  double seconds(const RowOrder &order);
  /// When each rank ends its runs, of the order asked for last.
  const std::vector<double> &ends() const { return clock; }

  /// No order of these tasks takes fewer seconds: each rank waits for what its first task needs,
  /// works without a break, and what follows its last task is still to come.
  double bound() const;

  /// The schedule with its runs in this order.
  Schedule withRows(const Schedule &schedule, const RowOrder &order) const;

private:
  void addTasks(const Schedule &schedule, const PlayCosts &costs);
  void addMessages(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs);
  void start(int number);

  std::vector<Node> tasks;
  RowOrder rows;
  int linkCount = 0;
  double closing = 0; ///< sum over ranks and the longest update
  std::vector<double> clock, ready, linkFree;
  std::vector<int> missing;
  std::vector<size_t> position;
};

/// The same schedule with each backward pass as its two halves, one behind the other.
Schedule splitBackward(const Schedule &schedule);

} // namespace pdc
