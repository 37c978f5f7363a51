#include "compiler/ir/Pdc.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/ir/PdcDialect.cpp.inc"
#include "compiler/ir/PdcEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/PdcAttributes.cpp.inc"

void pdc::ir::PdcDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/ir/PdcAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/PdcOps.cpp.inc"
      >();
}
