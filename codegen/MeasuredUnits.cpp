#include "codegen/MeasuredUnits.h"

#include "codegen/CppText.h"
#include "codegen/RuntimeNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/FormatVariadic.h"

#include <string>

namespace pdc {

namespace names = runtime_names;

bool isMeasured(mlir::Operation *op) {
  auto isTimed = [](mlir::Operation *inner) {
    return inner->hasAttr(kUnitTimeAttribute) ? mlir::WalkResult::interrupt()
                                              : mlir::WalkResult::advance();
  };
  return op->walk(isTimed).wasInterrupted();
}

void MeasuredUnits::begin(mlir::Operation *task) {
  if (isMeasured(task))
    os << (onDevice ? names::kCudaBeginTask : names::kBeginTask) << '\n';
}

void MeasuredUnits::end(mlir::Operation &op, bool sharesKernel) {
  auto number = op.getAttrOfType<mlir::IntegerAttr>(kUnitTimeAttribute);
  if (!number)
    return;
  if (!sharesKernel) {
    os << (onDevice ? names::kCudaEndUnit : names::kEndUnit) << '(' << number.getInt() << ");\n";
    return;
  }
  auto type = llvm::cast<mlir::RankedTensorType>(op.getResult(0).getType());
  shares.push_back({number.getInt(), type.getNumElements()});
}

void MeasuredUnits::endShared(unsigned indent) {
  double all = 0;
  for (const Share &share : shares)
    all += static_cast<double>(share.elements);
  std::vector<std::string> texts;
  for (const Share &share : shares)
    texts.push_back(
        llvm::formatv("{{{0}, {1:f9}}", share.number, static_cast<double>(share.elements) / all));
  if (!texts.empty())
    os << listText(std::string(names::kCudaEndUnit) + "({", texts, "});", indent) << '\n';
  shares.clear();
}

} // namespace pdc
