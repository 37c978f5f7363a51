#pragma once

#include "compiler/schedule/Schedule.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace pdc {

/// The gradients that one replica of a stage has summed since its last update.
class GradientSums {
public:
  void add(Phase phase, int64_t microbatch);
  /// The microbatch that a phase has added last; -1: none.
  int64_t last(Phase phase) const;
  /// Says what keeps each of these phases from having summed just the microbatches `due` of an
  /// update over `first` to `last`, whatever came first; empty: nothing.
  std::string missing(std::span<const Phase> phases, const std::vector<int64_t> &due, int64_t first,
                      int64_t last) const;
  /// Behind the update.
  void clear();

  bool overReplicas = false, overRanks = false; ///< sums of what is here that have come

private:
  struct Sum {
    int64_t last = -1;
    std::vector<int64_t> microbatches;
  };
  /// By the phase that adds to them: input gradients have sums too (the scale of a normalisation).
  std::map<Phase, Sum> sums;
};

} // namespace pdc
