#pragma once

#include "compiler/ir/Pdc.h"

#include <string>
#include <vector>

namespace pdc {

/// An array that a loop reads: an operand of the unit under the name of its pointer, or a part of
/// one. A single number among longer operands is captured, so that the loop keeps it in a register;
/// the others are one parameter each.
struct LoopOperand {
  std::string name;
  std::string pointer; ///< of a part: to what it is one of
  mlir::Type type;
  mlir::Value value;  ///< inside the unit
  unsigned index = 0; ///< among what the kernel's fields list
  bool isCaptured = false;

  bool isPart() const { return pointer != name; }
};

/// What an elementwise unit reads; `names` has one name per operand. What stands twice or is absent
/// is left out.
std::vector<LoopOperand> loopOperands(ir::UnitOp unit, llvm::ArrayRef<std::string> names);

/// How many values the loop computes for a result of the unit: one, or one for each part that it
/// puts there.
unsigned countLoopResults(ir::UnitOp unit, unsigned result);

/// Where a loop's lambda runs. On a device single numbers are parameters like the others: they lie
/// in the device's memory.
enum class LoopPlace : uint8_t { host, device };

/// Which loop a text is of.
struct LoopText {
  LoopPlace place = LoopPlace::host;
  /// One loop for many nodes of the same operators: comments name these and no nodes.
  bool isShared = false;
};

/// The lambda of an elementwise unit, line by line: it takes one element of each operand and
/// returns those of the results. The expressions come from the operators' own rows. Lines are
/// broken at spaces when `base` columns and they are longer than 100.
std::vector<std::string> loopBody(ir::UnitOp unit, llvm::ArrayRef<std::string> names, unsigned base,
                                  LoopText text = {});

/// `expression` of an operator's row with its operands and attributes put in.
std::string substitute(llvm::StringRef expression, llvm::ArrayRef<std::string> operands,
                       mlir::DictionaryAttr attributes);

} // namespace pdc
