#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<pdc::ir::PdcDialect, mlir::func::FuncDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  pdc::registerPdcPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "pdc-opt: runs passes on textual IR\n", registry));
}
