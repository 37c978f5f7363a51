#pragma once

#include "compiler/schedule/Rows.h"

#include <optional>

namespace pdc {

/// The step that a drawing points at.
struct Mark {
  int rank = 0;
  Task task;
};

/// Draws the runs of a schedule, one column per unit of time, one line per stage (per rank where a
/// rank has several): the marked run has a '!' before it, a run that never starts a '?'. Updates
/// are not drawn. `iterations`: repetitions of an asynchronous schedule, minibatches of another.
std::string drawGrid(const Schedule &schedule, std::span<const Edge> edges, int64_t iterations = 1,
                     std::optional<Mark> mark = std::nullopt);

/// Draws the steps of one rank in the order of its rows, without playing them: of rows that cannot
/// be played. The first `marked` has a '!' before it.
std::string drawRow(const Schedule &schedule, int rank, const Step &marked);

/// Iterations worth drawing: one minibatch, or enough to see the rhythm.
int64_t iterationsToDraw(const Schedule &schedule);

} // namespace pdc
