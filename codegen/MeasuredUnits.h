#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <vector>

namespace pdc {

/// A unit or accumulate with this integer attribute is followed by a call that records its time
/// under that number.
inline constexpr const char kUnitTimeAttribute[] = "pdc.unit_time";

/// Whether anything in `op` has its time recorded.
bool isMeasured(mlir::Operation *op);

/// The calls of a task that record times: none where no operation has the attribute.
class MeasuredUnits {
public:
  MeasuredUnits(llvm::raw_ostream &os, bool onDevice) : os(os), onDevice(onDevice) {}

  void begin(mlir::Operation *task);
  /// Behind an operation; where it shares a kernel it ends with that.
  void end(mlir::Operation &op, bool sharesKernel);
  /// Behind a shared kernel: each has a part of its time as large as its part of the elements.
  void endShared(unsigned indent);

private:
  struct Share {
    int64_t number, elements;
  };

  llvm::raw_ostream &os;
  bool onDevice;
  std::vector<Share> shares; ///< of the kernel to come
};

} // namespace pdc
