#pragma once

#include "codegen/LoopBody.h"

#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace pdc {

/// The loops of a program that are functions: layers and steps of time repeat, and each loop takes
/// a compiler its time. Loops that do the same are one function, called from all places. Those for
/// a GPU all are, of `stage_K.cu`, which `stage_K.cpp` declares; of those for a host the ones that
/// stand often, of `stage_K.cpp` itself.
class LoopFunctions {
public:
  LoopFunctions(int program, LoopPlace place);

  bool isForDevice() const { return place == LoopPlace::device; }
  /// For a host, of every loop before the first call: it stands here once more.
  void count(ir::UnitOp unit, llvm::ArrayRef<std::string> operands);
  /// For a host, once all loops are counted.
  void nameCounted();
  /// The call of an elementwise unit's function with these pointers, as `listText` takes it; the
  /// function is noted. Empty: the loop stands where it runs.
  std::string call(ir::UnitOp unit, llvm::ArrayRef<std::string> operands,
                   llvm::ArrayRef<std::string> results, unsigned base);

  bool empty() const;
  /// For the stage_K.cpp of a GPU.
  std::string declarations() const;
  /// For the stage_K.cpp of a host.
  std::string definitions() const;
  /// All of stage_K.cu; `title` says what the program is.
  std::string source(llvm::StringRef title) const;

private:
  struct Function {
    std::string name; ///< empty: it is none
    std::string wanted;
    std::vector<std::string> parameters;
    std::string body;
    std::string nodes; ///< of the first unit that calls it
    size_t calls = 0;
    bool isCalled = false;
  };
  Function &functionOf(ir::UnitOp unit, llvm::ArrayRef<std::string> pointers);
  void name(Function &function);

  LoopPlace place;
  std::string space; ///< `stage_0_loops`
  std::vector<Function> functions;
  llvm::StringMap<size_t> numbers; ///< of functions, by all but their names
  llvm::StringMap<unsigned> named; ///< how many want a name
};

/// The statement that runs a loop, line by line, as wide as behind `base` columns. `count`: how
/// many elements it has where nothing is repeated.
std::vector<std::string> loopStatement(ir::UnitOp unit, llvm::ArrayRef<std::string> operands,
                                       llvm::ArrayRef<std::string> results, LoopText loop,
                                       const std::string &count, unsigned base);

/// `<2, 0, 1>`
std::string templateList(llvm::ArrayRef<int64_t> values);
/// How many elements a loop computes.
int64_t loopElements(ir::UnitOp unit);

} // namespace pdc
