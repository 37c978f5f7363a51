// pdc-print-sources FILE.mlir: the stage sources of level-4 IR, for lit tests.

#include "codegen/PrintProgram.h"
#include "compiler/Error.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: pdc-print-sources FILE.mlir\n";
    return 2;
  }
  mlir::MLIRContext context;
  context.loadDialect<pdc::ir::PdcDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  pdc::Plan plan;
  plan.model = "test.onnx";
  plan.microbatchSize = 4;
  try {
    for (auto program : module->getOps<pdc::ir::ProgramOp>())
      llvm::outs() << pdc::printProgram(program, plan, "0123456789abcdef").host;
  } catch (const pdc::Error &error) {
    llvm::errs() << "error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
