#pragma once

#include "codegen/LoopBody.h"

#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace pdc {

/// The loops of a program for a GPU: functions of `stage_K.cu`, which `stage_K.cpp` declares and
/// calls. Loops that do the same are one function, called from all places: layers and steps of time
/// repeat, and each function takes its compiler a second.
class DeviceLoops {
public:
  explicit DeviceLoops(int program);

  /// The call of an elementwise unit's function with these pointers, as `listText` takes it; the
  /// function is noted.
  std::string call(ir::UnitOp unit, llvm::ArrayRef<std::string> operands,
                   llvm::ArrayRef<std::string> results, unsigned base);

  bool empty() const { return functions.empty(); }
  /// For stage_K.cpp.
  std::string declarations() const;
  /// All of stage_K.cu; `title` says what the program is.
  std::string source(llvm::StringRef title) const;

private:
  struct Function {
    std::string name, head, body;
    std::string nodes; ///< of the first unit that calls it
    size_t calls = 1;
  };
  const Function &functionOf(ir::UnitOp unit, llvm::ArrayRef<std::string> pointers);

  std::string space; ///< `stage_0_loops`
  std::vector<Function> functions;
  llvm::StringMap<size_t> numbers; ///< of functions, by all but their names
  llvm::StringMap<unsigned> named; ///< how many want a name
};

/// The members of a unit's kernel field, a list of integers; throws Error where it is none.
llvm::ArrayRef<int64_t> fieldOf(ir::UnitOp unit, llvm::StringRef name);
/// `<2, 0, 1>`
std::string templateList(llvm::ArrayRef<int64_t> values);
/// Where a loop over repeated operands or parts reads one: `strided<0, 1>(x)`, `part<8, 16, 1>(x)`.
std::string stridedText(ir::UnitOp unit, const LoopOperand &operand);
/// Where a loop writes its results: the pointers, or `part<0, 16, 1>(y)` for each part of one that
/// is put together, and on the host for each of several.
std::vector<std::string> resultTexts(ir::UnitOp unit, llvm::ArrayRef<std::string> pointers,
                                     LoopPlace place);
/// How many elements a loop computes.
int64_t loopElements(ir::UnitOp unit);

} // namespace pdc
