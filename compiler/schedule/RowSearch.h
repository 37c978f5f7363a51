#pragma once

#include "compiler/schedule/TaskGraph.h"

namespace pdc {

struct RowSearchRequest {
  std::span<const Edge> edges;
  PlayCosts costs;
  /// Per stage: microbatches that may be between forward and the end of backward; empty: any
  /// number.
  std::vector<int> most;
  /// Runs that are played in all: what the search may cost.
  int64_t effort = 10'000'000;
};

/// Looks for an order of the runs of a synchronous schedule that takes fewer seconds in the
/// player. Rows are made run by run, as if the ranks were at work and always took what is due
/// (list scheduling, under several rules of what comes first), with the backward pass whole and in
/// two halves; the best of them and the seed are then improved by moving single runs forwards and
/// backwards. Microbatches of a stage ascend in every phase. Returns compute rows, as the known
/// schedules do, under the name of the seed and "-searched", or the seed where nothing better was
/// found: deterministic, and never slower.
Schedule searchRows(const Schedule &seed, const RowSearchRequest &request);

/// Of rows with this name: of what they were searched from, or the name itself.
std::string nameOfSeed(std::string_view name);

} // namespace pdc
