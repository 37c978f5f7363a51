#include "passes/ProgramMemory.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gtest/gtest.h>

namespace pdc::test {

/// What one unit with this kernel brings to a process.
static int64_t bytesOfProcess(llvm::StringRef kernel) {
  mlir::MLIRContext context;
  context.loadDialect<ir::PdcDialect>();
  mlir::OpBuilder builder(&context);
  auto type = mlir::RankedTensorType::get({4, 8}, builder.getF32Type());
  auto parsed = llvm::dyn_cast_or_null<ir::KernelAttr>(mlir::parseAttribute(kernel, &context));
  EXPECT_TRUE(parsed) << kernel.str();
  mlir::OwningOpRef<ir::UnitOp> unit = builder.create<ir::UnitOp>(
      builder.getUnknownLoc(), mlir::TypeRange{type}, mlir::ValueRange{}, "unit", "unit",
      ir::Phase::Forward, ir::Rate::Microbatch, parsed, mlir::FloatAttr(), mlir::FloatAttr(),
      mlir::FloatAttr(), mlir::IntegerAttr(), mlir::ArrayAttr(), mlir::DenseI64ArrayAttr(),
      mlir::DenseI64ArrayAttr(), mlir::StringAttr(), mlir::ArrayAttr());
  LibraryUse use;
  use.add(*unit);
  return use.bytesOfProcess();
}

/// Until programs are laid out and behind that alike.
TEST(ProgramMemory, PlainProductsCountOnce) {
  const int64_t product =
      bytesOfProcess("#pdc.kernel<\"MatrixProduct\", {}, workspace = 0, accumulates = false>");
  EXPECT_GT(bytesOfProcess("#pdc.kernel<\"MatrixProduct\", {}, workspace = 0, accumulates = "
                           "false multiplies_plain = true>"),
            product + (1 << 20));
}

} // namespace pdc::test
