#pragma once

#include "compiler/ir/Pdc.h"

#include <string>
#include <vector>

namespace pdc {

/// An operand of a loop under the name of its pointer. A single number among longer operands is
/// captured, so that the loop keeps it in a register; the others are one parameter each.
struct LoopOperand {
  std::string name;
  mlir::Type type;
  bool isCaptured = false;
  unsigned index = 0; ///< of the unit's operand
};

/// The operands of an elementwise unit; `names` has one name per operand. What stands twice or is
/// absent is left out.
std::vector<LoopOperand> loopOperands(ir::UnitOp unit, llvm::ArrayRef<std::string> names);

/// Where a loop's lambda runs. On a device single numbers are parameters like the others: they lie
/// in the device's memory.
enum class LoopPlace : uint8_t { host, device };

/// The lambda of an elementwise unit, line by line: it takes one element of each operand and
/// returns those of the results. The expressions come from the operators' own rows. Lines are
/// broken at spaces when `base` columns and they are longer than 100.
std::vector<std::string> loopBody(ir::UnitOp unit, llvm::ArrayRef<std::string> names, unsigned base,
                                  LoopPlace place = LoopPlace::host);

/// `expression` of an operator's row with its operands and attributes put in.
std::string substitute(llvm::StringRef expression, llvm::ArrayRef<std::string> operands,
                       mlir::DictionaryAttr attributes);

} // namespace pdc
