#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Cut.h"
#include "compiler/schedule/Schedule.h"

#include "llvm/ADT/StringSet.h"

#include <optional>
#include <vector>

namespace pdc {

/// Which rows of the programs are meant.
enum class Rows { training, evaluation };

/// The tensors that cross stages in training or in evaluation. Ids are positions, as the schedule
/// library wants them and `tensor` is the outbox; `tags` holds the ascending tag of each in the IR,
/// `inboxes` the memory where it arrives.
struct TaggedEdges {
  std::vector<Edge> edges;
  std::vector<int64_t> tags;
  std::vector<std::string> inboxes;
};
TaggedEdges findEdges(mlir::ModuleOp module, Rows rows);

/// The schedule as the programs hold it, with slots and versions where stages have them. Its rows
/// have been checked by checkRows.
Schedule readSchedule(mlir::ModuleOp module, Rows rows, const TaggedEdges &edges);

/// The rows of all programs, for those who look at one program after the other.
struct ReadRows {
  TaggedEdges edges;
  Schedule schedule;
};
ReadRows readRows(mlir::ModuleOp module, Rows rows);

/// Replaces the rows in the programs.
void writeSchedule(mlir::ModuleOp module, const Schedule &schedule, Rows rows,
                   const TaggedEdges &edges);

/// The schedule op of a program for one of its ranks, or for any; null before build-schedule.
ir::ScheduleOp findScheduleOp(ir::ProgramOp program, Rows rows,
                              std::optional<int64_t> rank = std::nullopt);

/// Whether each microbatch is its own update, or would be as well: one per update.
bool updatesEachMicrobatch(ir::ProgramOp program);

/// Per program, in order: the inboxes that its rows fill before the forward pass of the same
/// microbatch.
std::vector<llvm::StringSet<>> findEarlyArrivals(mlir::ModuleOp module);

Phase toPhase(ir::Phase phase);
ir::Phase toPhase(Phase phase);

} // namespace pdc
