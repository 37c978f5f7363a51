#pragma once

#include "compiler/schedule/Arrangement.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pdc {

/// What the ranks have told a library that moves messages, such as NCCL: groups in the order of the
/// calls, among the tasks and sums of their rank. Sends and receives name edges by their tags.
class Calls {
public:
  using Actions = std::vector<std::vector<Action>>; ///< by rank

  /// A task, or a sum.
  void addRow(int64_t step, int64_t rank, const Step &row);
  /// A message of call `number`, by a communicator of two ranks: "0-1", or "0>1" where it is that
  /// of a directed edge.
  void addMessage(int64_t step, int64_t rank, int64_t number, const std::string &communicator,
                  const Step &message);

  /// A message by a communicator whose queue holds no other.
  void addBeside(int64_t rank, const std::string &communicator, const Step &message);

  bool empty() const { return told.empty(); }
  /// By edges where a communicator is that of one.
  Arrangement arrangement() const { return queues; }
  /// By step.
  const std::map<int64_t, Actions> &steps() const { return actions; }
  /// Throws pdc::Error unless both ends of each communicator were told of the same messages in the
  /// same order.
  void check() const;

private:
  /// The messages from one rank to another over a communicator.
  struct Ends {
    std::vector<Step> sends, receives;
  };
  std::vector<Action> &actionsOf(int64_t step, int64_t rank);

  Arrangement queues = Arrangement::pairs;
  std::map<int64_t, Actions> actions;
  std::map<std::pair<int64_t, int64_t>, int64_t> newest; ///< by step and rank: number of a call
  std::map<std::tuple<std::string, int64_t, int64_t>, Ends> told; ///< communicator, from, to
};

} // namespace pdc
