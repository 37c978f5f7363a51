#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/operators/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace pdc {

/// What a module is run on. Values that are not given are drawn from the seed by memory name and
/// global microbatch number, so that every level of a module sees the same ones.
struct InterpreterInput {
  uint64_t seed = 1;
  /// Microbatches per update; a scheduled module has its own number.
  int64_t microbatches = 2;
  /// Updates; of an asynchronous module also the number of microbatches.
  int64_t updates = 2;
  /// Microbatches that @evaluate runs on after training.
  int64_t evaluations = 1;
  double learningRate = 0.05;
  /// Contents of memories: the first value of a weight, constant or state, or an input's value for
  /// each global microbatch (used again from the start when there are more microbatches).
  std::map<std::string, std::vector<Tensor>> given;
};

/// Runs a module at any level in double: `@train` for the updates, then `@evaluate`. A graph or cut
/// runs as one program, a staged module stage after stage, a scheduled one along its rows with
/// rendezvous transfers, microbatch slots and version rings. Returns what the weights, optimizer
/// states, running statistics and metrics hold at the end, by name. Throws Error for what cannot be
/// run, for a deadlock, and for a read that finds another microbatch or version than it should.
std::map<std::string, Tensor> interpret(mlir::ModuleOp module, const InterpreterInput &input = {});

/// Whether both modules leave the same contents on the same inputs: within `tolerance`, relative to
/// the largest element of each memory. Memories that only `after` has do not count. `difference`
/// says the first one that differs.
bool computesTheSame(mlir::ModuleOp before, mlir::ModuleOp after, double tolerance,
                     std::string &difference);

} // namespace pdc
