#pragma once

#include "compiler/interpreter/Interpreter.h"
#include "compiler/operators/Tensor.h"

#include <map>
#include <memory>
#include <optional>

namespace pdc::interpreter {

/// What a task is run for. Update tasks carry the last microbatch that they include.
struct Run {
  int64_t stage = 0;
  ir::Phase phase = ir::Phase::Forward;
  int64_t microbatch = 0; ///< global
};

/// A value in one copy of a memory, with the microbatch or version that it belongs to.
struct Held {
  int64_t tag = 0;
  Tensor value;
};

/// A memory and its copies, by slot: microbatch slots, version ring, or the one copy 0.
struct Memory {
  ir::MemoryOp op;
  std::string name;
  ir::Role role;
  TensorType type;
  int64_t depth = 0; ///< copies in the version ring; 0: without limit
  std::map<int64_t, Held> held;
  int64_t newest = 0;      ///< weights: the highest version
  bool fresh = false;      ///< sums: holds this program's part, not yet the total over all programs
  int64_t sumOfUpdate = 0; ///< sums: the update that the part is for
};

class Machine;

/// What the machines of a module know together.
struct Machines {
  const InterpreterInput &input;
  bool asynchronous = false;
  int64_t microbatches = 1; ///< per update
  std::vector<std::unique_ptr<Machine>> machines;
  /// Vertical sync: updates that stage 0 had seen when a microbatch entered.
  std::map<int64_t, int64_t> entryVersions;

  /// A sum over all programs, whether it has been reduced already or not; null: no program has it.
  std::optional<Tensor> total(const std::string &memory) const;
  /// Gives every program that has the memory the total, added in rank order.
  void reduce(const std::string &memory);
};

/// The address space of one program and the number of updates that each of its stages has seen.
class Machine {
public:
  Machine(Machines &all, std::string name, int64_t rank, mlir::Region &memories);

  const std::string &getName() const { return name; }
  int64_t getRank() const { return rank; }
  Memory *find(llvm::StringRef memory);
  Memory &get(llvm::StringRef memory);
  std::map<std::string, Memory> &all() { return memories; }

  /// The copies of stage's microbatch memories: microbatch k lies in slot slots[k % size]. Empty:
  /// each microbatch has its own.
  void setSlots(int64_t stage, std::vector<int64_t> table) { slots[stage] = std::move(table); }

  /// Runs the operations of a task and does the book-keeping of its phase.
  void run(llvm::ArrayRef<mlir::Operation *> operations, const Run &run);

  Tensor read(llvm::StringRef memory, const Run &run);
  Tensor readVersion(llvm::StringRef memory, ir::Version version, const Run &run);
  void write(llvm::StringRef memory, Tensor value, const Run &run);
  void commit(llvm::StringRef memory, Tensor value, const Run &run);
  void accumulate(llvm::StringRef memory, Tensor value, const Run &run);

  /// Whether the memory holds this microbatch's value; and the value as a transfer takes or puts
  /// it.
  bool holds(const Memory &memory, const Run &run) const;
  Tensor take(llvm::StringRef memory, const Run &run);
  void put(llvm::StringRef memory, Tensor value, const Run &run);

private:
  [[noreturn]] void refuse(const Memory &memory, const Run &run, const std::string &what) const;
  void checkShape(const Memory &memory, const Tensor &value, const Run &run) const;
  int64_t slotOf(const Run &run) const;
  double gradientScale() const;
  Tensor readInput(Memory &memory, const Run &run);
  void holdVersion(Memory &memory, int64_t version, Tensor value, const Run &run);
  int64_t wantedVersion(const Memory &memory, ir::Version version, const Run &run);

  Machines &others;
  std::string name;
  int64_t rank;
  std::map<std::string, Memory> memories;
  std::map<int64_t, std::vector<int64_t>> slots;
  std::map<int64_t, int64_t> updates;                          ///< by stage
  std::map<std::pair<int64_t, int64_t>, int64_t> readVersions; ///< by stage and microbatch
};

} // namespace pdc::interpreter
