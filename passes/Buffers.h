#pragma once

#include "compiler/ir/Pdc.h"

#include <string>
#include <vector>

namespace pdc {

/// Whether a memory keeps its content from one microbatch to the next: weights, gradients, metrics.
bool isPersistent(ir::MemoryOp memory);

/// Bytes that several values and memories share.
struct Buffer {
  std::vector<mlir::Value> values;
  std::vector<ir::MemoryOp> memories;

  ir::MemoryOp persistent() const;
  bool has(ir::Role role) const;
  /// Of the largest member.
  int64_t bytes() const;
};

/// The first task of a program that reads or writes each of its memories.
class FirstTasks {
public:
  explicit FirstTasks(ir::ProgramOp program);
  /// Null when no task does.
  ir::TaskOp of(mlir::StringAttr memory) const {
    return mlir::cast_or_null<ir::TaskOp>(tasks.lookup(memory));
  }

private:
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> tasks;
};

/// The buffers of a program, as the IR says it: a read shares its memory's, so does what is
/// written, committed or `fused` into it; a view its operand's; `in_place` results their operand's.
class Buffers {
public:
  explicit Buffers(ir::ProgramOp program);

  /// Makes one buffer of two. Throws Error when that would mix two memories that must stay apart.
  void join(mlir::Value a, mlir::Value b) { join(idOf(a), idOf(b)); }
  bool same(mlir::Value a, mlir::Value b) const { return root(idOf(a)) == root(idOf(b)); }
  const Buffer &of(mlir::Value value) const { return buffers[root(idOf(value))]; }
  const Buffer &of(ir::MemoryOp memory) const { return buffers[root(memories.lookup(memory))]; }

  ir::MemoryOp memory(mlir::FlatSymbolRefAttr name) const;
  /// All buffers, in the order of their first member in the program.
  std::vector<const Buffer *> all() const;

  /// Where a memory lies: "fixed", "versions", "slots.K" or "evaluation".
  std::string regionOf(ir::MemoryOp memory) const;
  /// Where a value lies: its memory's region, else "scratch".
  std::string regionOf(mlir::Value value) const;

private:
  void addMembers(ir::ProgramOp program);
  void joinStores(ir::ProgramOp program);
  int add(Buffer buffer);
  int idOf(mlir::Value value) const { return values.lookup(value); }
  int root(int id) const;
  void join(int a, int b);

  FirstTasks firstTasks;
  std::vector<int> parents;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, int> values;
  llvm::DenseMap<mlir::Operation *, int> memories;
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> names;
};

} // namespace pdc
