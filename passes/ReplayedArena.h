#pragma once

#include "compiler/ir/Pdc.h"
#include "passes/ShadowBytes.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <string>

namespace pdc {

/// Where a value is during one run of a task, and what ought to be there.
struct Located {
  int64_t address = 0, bytes = 0, content = 0;
  int64_t version = 0; ///< the ring copy it lies in, where its home is a weight's
};

/// Which copies one run of a task sees.
struct Copies {
  int64_t slot = 0, latest = 0, stashed = 0, next = 0;
  bool evaluation = false, startsSums = true;
};

/// The arena of a program whose bytes remember what was written, and what each memory was given.
class ReplayedArena {
protected:
  /// Throws pdc::Error unless plan-memory has run.
  explicit ReplayedArena(ir::ProgramOp program);

  [[noreturn]] void refuse(const std::string &what);

  /// Evaluation has inputs at the same offsets of its own copies.
  int64_t address(ir::HomeAttr home, const Copies &copies, int64_t version);
  int64_t address(ir::HomeAttr home, int64_t copy);
  ir::MemoryOp memory(llvm::StringRef name) { return symbols.lookup<ir::MemoryOp>(name); }

  void write(ir::MemoryOp memory, int64_t address, int64_t content);
  int64_t contentOf(ir::MemoryOp memory, int64_t address);
  void expect(const Located &located, const std::string &who);

  struct Region {
    int64_t offset = 0, stride = 0, copies = 1;
  };

  ir::ProgramOp program;
  mlir::SymbolTable symbols;
  ShadowBytes bytes;
  llvm::StringMap<Region> regions;
  std::map<std::pair<mlir::Operation *, int64_t>, int64_t> contents; ///< by memory and address

private:
  void checkPlaces();
};

} // namespace pdc
