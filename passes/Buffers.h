#pragma once

#include "compiler/ir/Pdc.h"

#include <string>
#include <vector>

namespace pdc {

/// Whether a memory keeps its content from one microbatch to the next: weights, gradients, metrics.
bool isPersistent(ir::MemoryOp memory);

/// A result that may lie where an operand lies.
struct InPlace {
  unsigned operand, result;
};

/// What a unit's kernel can do in place, before it is decided: `in_place` of level 1, and of a loop
/// each operand of a result's type.
llvm::SmallVector<InPlace> offeredInPlace(ir::UnitOp unit);

/// Bytes that several values and memories share; parts of a value have some of its bytes.
struct Buffer {
  std::vector<mlir::Value> values;
  std::vector<ir::MemoryOp> memories;
  int64_t begin = 0, end = 0; ///< of all members, where the first of them lies at 0

  ir::MemoryOp persistent() const;
  bool has(ir::Role role) const;
  int64_t bytes() const { return end - begin; }
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
/// written, committed or `fused` into it; a view its operand's; `in_place` results their operand's;
/// parts of a partition without a kernel some of the whole's.
class Buffers {
public:
  explicit Buffers(ir::ProgramOp program);

  /// Makes one buffer of two. Throws Error when that would mix two memories that must stay apart.
  void join(mlir::Value a, mlir::Value b) { join(idOf(a), idOf(b)); }
  /// The same of a whole and its parts, where the operation says where these lie in it.
  void joinParts(mlir::Operation *op);
  /// Whether both begin at the same byte of one buffer.
  bool same(mlir::Value a, mlir::Value b) const { return placeOf(idOf(a)) == placeOf(idOf(b)); }
  bool areTogether(mlir::Value a, mlir::Value b) const { return &of(a) == &of(b); }
  /// Whether they have bytes in common.
  bool overlap(mlir::Value a, mlir::Value b) const;
  const Buffer &of(mlir::Value value) const { return buffers[placeOf(idOf(value)).root]; }
  const Buffer &of(ir::MemoryOp memory) const {
    return buffers[placeOf(memories.lookup(memory)).root];
  }
  /// From the begin of its buffer.
  int64_t offsetOf(mlir::Value value) const { return offsetOf(idOf(value)); }
  int64_t offsetOf(ir::MemoryOp memory) const { return offsetOf(memories.lookup(memory)); }

  ir::MemoryOp memory(mlir::FlatSymbolRefAttr name) const;
  /// All buffers, in the order of their first member in the program.
  std::vector<const Buffer *> all() const;

  /// Where a memory lies: "fixed", "versions", "slots.K" or "evaluation".
  std::string regionOf(ir::MemoryOp memory) const;
  /// Where a value lies: its memory's region, else "scratch".
  std::string regionOf(mlir::Value value) const;

private:
  /// The member that stands for its buffer, and how far behind it another lies.
  struct Place {
    int root;
    int64_t behind;
    bool operator==(const Place &) const = default;
  };

  void addMembers(ir::ProgramOp program);
  void joinStores(ir::ProgramOp program);
  int add(Buffer buffer, mlir::Type type);
  int idOf(mlir::Value value) const { return values.lookup(value); }
  Place placeOf(int id) const;
  int64_t offsetOf(int id) const;
  /// `b` lies so many bytes behind `a`.
  void join(int a, int b, int64_t behind = 0);

  FirstTasks firstTasks;
  std::vector<Place> parents;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, int> values;
  llvm::DenseMap<mlir::Operation *, int> memories;
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> names;
};

} // namespace pdc
