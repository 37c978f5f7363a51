#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace pdc {

/// The tables behind the classes of a generated source: what the executor obeys.
void printRegions(llvm::raw_ostream &os, ir::ProgramOp program);
void printMemories(llvm::raw_ostream &os, ir::ProgramOp program);
/// Whether there is a table of memories: an empty array is no C++.
bool listsMemories(ir::ProgramOp program);

/// A tensor's way to or from another stage, as this rank sees it.
struct TransferRow {
  std::string name; ///< enumerator: `relu1_to_1`, `relu1_gradient_from_1_2` of two replicas
  ir::MemoryOp memory;
  int64_t stage = 0;
  std::vector<int64_t> peers; ///< in the order in which microbatches go round
  int64_t tag = 0;
  bool sends = false;
};

/// The program's transfers in order of their first row.
std::vector<TransferRow> transferRows(ir::ProgramOp program);
/// What stages of the program give each other. False: nothing, and no table.
bool printMoves(llvm::raw_ostream &os, ir::ProgramOp program);
void printTransfers(llvm::raw_ostream &os, ir::ProgramOp program,
                    llvm::ArrayRef<TransferRow> transfers);

/// The rows of training and evaluation and the short functions that spell them.
void printRows(llvm::raw_ostream &os, ir::ProgramOp program, llvm::ArrayRef<TransferRow> transfers);
void printStages(llvm::raw_ostream &os, ir::ProgramOp program, const Plan &plan);

/// The schedule of training or of evaluation for a rank of the program, or for any; throws Error
/// when there is none.
ir::ScheduleOp scheduleOf(ir::ProgramOp program, bool evaluation,
                          std::optional<int64_t> rank = std::nullopt);
/// What the replicas of a stage bring together at an update, gradients in the order in which the
/// backward pass makes them; nothing where a stage has one rank.
std::vector<ir::MemoryOp> replicatedMemories(ir::ProgramOp program, int64_t stage, ir::Role role);
/// A table of rows that is not empty.
struct RowsPart {
  llvm::StringRef field; ///< of the runtime's Rows
  std::string table;     ///< `kTrainingStep`: with the rank, where there are several
  mlir::Region *rows;
};
std::vector<RowsPart> rowsParts(ir::ScheduleOp schedule);

} // namespace pdc
